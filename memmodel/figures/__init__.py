"""Every drawing of the book: values -> Scene, one module a chapter, found here by name."""

from __future__ import annotations

from importlib import import_module

from memmodel.scene import Figure

# figure name -> module that draws it; a page's runtime imports only the module it needs
MODULES: dict[str, str] = {
    "naive-count": "counting",
    "activation-tally": "counting",
    "levers": "sharding",
    "replica-groups": "sharding",
    "schedule": "pipeline",
    "fold": "fold",
    "step-memory": "memory",
    "pareto": "pareto",
    "recompute-diagram": "block",
    "precision-diagram": "precision",
    "frontier": "tradeoff",
}


def get(name: str) -> Figure:
    """The figure called `name`. Raises ValueError for an unknown name."""
    if name not in MODULES:
        raise ValueError(f"figure {name!r}: known are {', '.join(sorted(MODULES))}")
    figure: Figure = import_module(f"memmodel.figures.{MODULES[name]}").FIGURES[name]
    return figure
