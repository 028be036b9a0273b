"""Imports point down only, and the core needs the standard library only."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "memmodel"

# The floor that a module stands on: it may import from lower floors, and from its own only where
# SIDEWAYS says so. A new module must be given a floor here before it may exist.
LEVELS: dict[str, int] = {
    "__init__": 0,
    "architecture": 0,
    "formats": 0,
    "devices": 0,
    "inputs": 0,
    "orders": 0,
    "lettering": 0,
    "palette": 0,
    "configs": 1,
    "graph": 1,
    "inflight": 1,
    "mesh": 1,
    "tables": 1,
    "timeline": 1,
    "recompute": 2,
    "schedule": 2,
    "plan": 3,
    "ledger": 3,
    "frontiers": 3,
    "steps": 4,
    "planner": 4,
    "mincut": 4,
    "budgets": 4,
    "mixes": 4,
    "scene": 5,
    "figures": 6,
    "render_svg": 7,
    "render_matplotlib": 7,
    "render_html": 7,
    "live": 8,
    "widgets": 8,
    "report": 8,
    "report_frontier": 8,
    "flags": 8,
    "commands": 9,
    "__main__": 10,
}
SIDEWAYS: set[tuple[str, str]] = {
    ("ledger", "plan"),
    ("mixes", "budgets"),  # the search stands on the bound that prunes it
    ("report_frontier", "report"),
    ("render_html", "render_svg"),  # the controls stand around the picture
}

# What a module may use besides the standard library.
OUTSIDE: dict[str, set[str]] = {
    "planner": {"numpy"},
    "mincut": {"networkx"},
    "render_matplotlib": {"matplotlib", "numpy", "PIL"},  # matplotlib brings both
    "widgets": {"ipywidgets", "traitlets"},
}


def modules() -> dict[str, Path]:
    """Every module, by its dotted name below the package."""
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def room(name: str) -> str:
    """The module or subpackage that has a floor: figures.bars stands where figures stands."""
    return name.partition(".")[0]


def imports(source: str) -> set[str]:
    """Full names of everything that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written out in full"
            assert node.module
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def problems(name: str, source: str) -> list[str]:
    """What is wrong with the imports of one module."""
    here, wrong = room(name), []
    for imported in sorted(imports(source)):
        top, *rest = imported.split(".")
        if top != "memmodel":
            if top not in sys.stdlib_module_names and top not in OUTSIDE.get(here, set()):
                wrong.append(f"{name} imports {top}: only the standard library is allowed here")
            continue
        there = rest[0] if rest and rest[0] in LEVELS else "__init__"
        if rest and there == "__init__" and not rest[0].startswith("_"):
            wrong.append(f"{name} imports memmodel.{rest[0]}, which has no level")
        sideways = here == there or (here, there) in SIDEWAYS
        if LEVELS[there] >= LEVELS[here] and not sideways and there != "__init__":
            wrong.append(f"{name} (level {LEVELS[here]}) imports {there} (level {LEVELS[there]})")
    return wrong


@pytest.mark.parametrize("name", modules())
def test_imports_point_down(name: str) -> None:
    assert room(name) in LEVELS, f"{name} needs a level in this test"
    assert problems(name, modules()[name].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("name", "source", "complaint"),
    [
        ("graph", "from memmodel.plan import Plan", "graph (level 1) imports plan (level 3)"),
        ("graph", "from memmodel import plan", "graph (level 1) imports plan (level 3)"),
        ("mesh", "import memmodel.graph", "mesh (level 1) imports graph (level 1)"),
        ("scene", "import numpy as np", "scene imports numpy"),
        ("figures.bars", "def draw():\n    import matplotlib", "figures.bars imports matplotlib"),
        ("plan", "import memmodel.novelty", "memmodel.novelty, which has no level"),
    ],
)
def test_an_arrow_that_points_up_is_seen(name: str, source: str, complaint: str) -> None:
    assert any(complaint in problem for problem in problems(name, source))


def test_arrows_that_point_down_are_fine() -> None:
    assert problems("figures.bars", "from memmodel.figures.common import x\nimport math") == []
    assert problems("ledger", "from memmodel.plan import Plan\nfrom memmodel import mesh") == []
    assert problems("plan", "from memmodel import __version__") == []
