"""Every size in prose is computed: by a cell of the same page, or by this test."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from memmodel.__main__ import main
from memmodel.devices import device
from memmodel.formats import number_text, size_text
from memmodel.ledger import account
from memmodel.plan import Plan
from memmodel.steps import STEPS
from memmodel.tables import gib

ROOT = Path(__file__).resolve().parent.parent
SIZE = re.compile(r"(?<![\w.,])[-+]?\d[\d,]*(?:\.\d+)? ?(?:[KMGTP]iB|[KMGT]B|B|%)(?![\w])")
# What is a name rather than a result: the yardstick, the card, the unit.
YARDSTICK = {"80 GiB", "80 GB", "1 GiB"}


def sizes(text: str) -> set[str]:
    """All sizes and percentages that a text names, except the yardstick.

    >>> sorted(sizes("from 8.65 TiB to 66,296,545,344 B, 17 % of 80 GiB; an 8B model, 2 + 4 B"))
    ['17 %', '4 B', '66,296,545,344 B', '8.65 TiB']
    """
    return {found.group().strip() for found in SIZE.finditer(text)} - YARDSTICK - {"8B"}


def computed() -> set[str]:
    """The sizes that the Markdown pages may name, each from the package."""
    fit, h100 = account(Plan()), device("h100")
    reported = Fraction(h100.reported_mib * 2**20)
    told = {gib(reported), gib(h100.usable_bytes), gib(fit.peak.total), gib(fit.slack_bytes)}
    told |= {f"{number_text(fit.peak.total)} B", f"{number_text(2**30)} bytes"}
    told |= {f"{round(100 * (1 - Fraction(10**9, 2**30)))} %"}  # how much less a GB is than a GiB
    for step in STEPS:
        told |= {size_text(step.total), *map(size_text, step.bytes.values())}
    return told


def markdown_pages() -> Iterator[Path]:
    """README and the pages without cells."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "book").glob("*.md"))


@pytest.mark.parametrize("page", list(markdown_pages()), ids=lambda page: page.name)
def test_sizes_on_markdown_pages_are_those_of_the_package(page: Path) -> None:
    assert sizes(page.read_text(encoding="utf-8")) - computed() == set()


@pytest.mark.parametrize(
    "page", sorted((ROOT / "book").glob("*.ipynb")), ids=lambda page: page.name
)
def test_sizes_in_a_notebook_are_outputs_of_its_cells(page: Path) -> None:
    """Also those in the description that search engines and previews show."""
    notebook = json.loads(page.read_text(encoding="utf-8"))
    prose, outputs = [json.dumps(notebook["metadata"], ensure_ascii=False)], []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            prose.append("".join(cell["source"]))
        for output in cell.get("outputs", []):
            texts = [output.get("text", []), *output.get("data", {}).values()]
            outputs += ["".join(text) for text in texts if isinstance(text, str | list)]
    unfounded = sizes("\n".join(prose)) - sizes("\n".join(outputs))
    assert unfounded == set()


def test_the_table_of_the_readme_is_the_story() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for step in STEPS:
        cells = (*map(size_text, step.bytes.values()), size_text(step.total))
        assert f"| {step.number} {step.name} | {' | '.join(cells)} |\n" in readme


def test_the_first_result_of_the_readme_is_the_default_plan() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    fit = account(Plan())
    told = f"on pipeline rank {fit.peak.rank}, holds {number_text(fit.peak.total)} B"
    assert f"{told} = {gib(fit.peak.total)}" in readme
    assert f"leaves {gib(fit.slack_bytes)} of slack to 80 GiB" in readme
    assert fit.fits


def test_commands_of_the_readme_run_and_say_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    python3 -m memmodel (.*)$", readme, re.MULTILINE)
    assert len(commands) >= 3
    for line in commands:
        command, _, comment = line.partition("#")
        assert main(shlex.split(command)) == 0
        shown = capsys.readouterr().out
        assert sizes(comment) <= sizes(shown)
        assert ("does not fit" in comment) == ("does not fit" in shown)


def test_every_path_that_the_readme_names_is_there() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    path_like = r"`([\w./-]+\.(?:md|yml|cff|txt|py)|[\w-]+/(?:\w+/)?|LICENSE(?:-TEXT)?)`"
    named = re.findall(path_like, readme)
    assert len(named) >= 8
    for path in named:
        assert (ROOT / path).exists(), path
