"""The frontier as a picture: its corners and names stand where the accounting puts them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from geometry import by_id

from memmodel.figures import get
from memmodel.figures.gauges import GIB, RANK_TOKENS
from memmodel.figures.marking import graph
from memmodel.figures.tradeoff import BUDGETS, MOST_STEPS, x_of, y_of
from memmodel.formats import RECIPES
from memmodel.frontiers import frontier
from memmodel.scene import Group, Path, Text

FIGURE = get("frontier")


def test_the_hull_of_bf16_has_twelve_steps_each_more_than_the_one_before() -> None:
    hull = by_id(FIGURE.scene(), "hull")
    assert isinstance(hull, Path)
    assert len(hull.points) == 12
    assert hull.points[0] == (x_of(0), y_of(457360))
    assert hull.points[-1][1] == y_of(129024)
    found = frontier(graph("moe"), RECIPES["bf16"])
    sets = [set(found.names(point)) for point in found.corners]
    assert all(one < other for one, other in pairwise(sets))
    assert [point.bytes_per_token for point in found.corners][6] == 256640


@pytest.mark.parametrize("communication", ["on", "off"])
@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_every_step_can_be_chosen_and_says_what_it_replays(recipe: str, communication: str) -> None:
    state = {"recipe": recipe, "communication": communication}
    found = frontier(graph("moe"), RECIPES[recipe], replay_communication=communication == "on")
    assert len(found.corners) <= MOST_STEPS
    for at, point in enumerate(found.corners, 1):
        step = by_id(FIGURE.scene(**state), f"step-{at}")
        assert isinstance(step, Group)
        lines = [
            mark.text
            for mark in FIGURE.scene(**state, **step.sets).marks
            if isinstance(mark, Text) and mark.id in {"value-line-0", "value-line-1"}
        ]
        names = ", ".join(found.names(point)) or "nothing"
        assert " ".join(lines) == f"Step {at} replays {names}."
    assert FIGURE.scene(**state, selected=str(MOST_STEPS)).resolved == {"selected": ""}


@pytest.mark.parametrize("recipe", ["bf16", "dsv3-fp8"])
def test_every_step_loads_its_marks_into_the_diagram(recipe: str) -> None:
    diagram, found = get("recompute-diagram"), frontier(graph("moe"), RECIPES[recipe])
    scene = FIGURE.scene(recipe=recipe)
    for at, point in enumerate(found.corners, 1):
        step = by_id(scene, f"step-{at}")
        assert isinstance(step, Group)
        assert step.into == diagram.name
        # whatever the diagram showed before
        shown = diagram.scene(**{"kind": "dense", "policy": "full"} | dict(step.loads))
        table = {row[0].split(",")[0]: row[1] for row in shown.table.rows}
        replayed = {name for name, output in table.items() if output.startswith("replayed")}
        assert replayed == set(found.names(point))
        if recipe == "bf16":
            assert f"{point.bytes_per_token:,} bytes per token kept" in shown.status


def test_the_chosen_step_is_left_without_a_change_of_the_diagram() -> None:
    step = by_id(FIGURE.scene(selected="7"), "step-7")
    assert isinstance(step, Group)
    assert (step.value, step.into) == ("", "")


def test_presets_stand_on_their_costs() -> None:
    scene = FIGURE.scene()
    assert not [m for m in scene.marks if isinstance(m, Path) and m.id == "preset-dsv3"]
    assert "dsv3 on the hull" in scene.alt
    assert "attn-replay dominated" in scene.alt
    full = by_id(scene, "preset-full")
    assert isinstance(full, Path)
    assert full.points[0] == (x_of(1), y_of(14336) - 6)


def test_a_budget_is_kept_by_the_policy_of_least_replay() -> None:
    found = frontier(graph("moe"), RECIPES["bf16"])
    for budget in BUDGETS[:-1]:
        answer = by_id(FIGURE.scene(budget=budget), "answer")
        assert isinstance(answer, Path)
        fits = [p for p in found.front if p.bytes_per_token * RANK_TOKENS <= int(budget) * GIB]
        least = min(p.replay_flops for p in fits) / found.forward_flops
        assert answer.points[0][0] == x_of(least)
    line = by_id(FIGURE.scene(budget="30"), "value-line-2")
    assert isinstance(line, Text)
    assert line.text == "No policy keeps at most 30 GiB: the least is 33.47 GiB."
