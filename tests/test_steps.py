"""The six steps of the story against the reference figures, and tables that show them."""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from memmodel.plan import Plan
from memmodel.steps import COUNTED, STEPS, step
from memmodel.tables import Grid

REFERENCE = json.loads((Path(__file__).parent / "goldens" / "reference.json").read_text())


@pytest.mark.parametrize("number", range(1, 7))
def test_every_step_is_exact(number: int) -> None:
    now, wanted = step(number), REFERENCE["fit_steps"][number - 1]
    assert now.account.peak.rank == wanted["rank"]
    assert now.bytes == {category: wanted[category] for category in COUNTED}
    assert now.total == wanted["total"]


def test_a_step_changes_what_its_lever_says() -> None:
    """The lever's words name exactly the fields that differ from the plan before."""
    for before, now in pairwise(STEPS):
        changed = {
            item.name: getattr(now.plan, item.name)
            for item in fields(Plan)
            if getattr(now.plan, item.name) != getattr(before.plan, item.name)
        }
        said = dict(part.split() for part in now.change.split(", "))
        assert said == {name: str(value) for name, value in changed.items()}


def test_the_story_ends_at_the_default_plan() -> None:
    assert STEPS[-1].plan == Plan()
    assert [now.account.fits for now in STEPS] == [False] * 5 + [True]


def test_no_step_makes_the_run_larger() -> None:
    totals = [Fraction(now.total) for now in STEPS]
    assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize("number", [0, 7, -1])
def test_other_steps_do_not_exist(number: int) -> None:
    with pytest.raises(ValueError, match="there are steps 1 to 6"):
        step(number)


def test_a_grid_escapes_what_it_shows() -> None:
    html = Grid(("a<b",), (("<script>",),), caption='"&"')._repr_html_()
    assert "<script>" not in html
    assert "a&lt;b" in html
    assert 'aria-label="&quot;&amp;&quot;"' in html


def test_a_grid_names_its_rows_and_columns() -> None:
    html = Grid(("part", "bytes"), (("weights", "12"),), ("total", "12"))._repr_html_()
    assert html.count('scope="col"') == 2
    assert html.count('scope="row"') == 2
    assert "<tfoot>" in html
