"""Times a change of a knob in a notebook: from the control's new value to the new picture.

`python tests/bench_notebook.py` prints one line a figure. What a kernel and a browser add
is measured with them (about 10 ms on loopback); drawing is nearly all of it.
"""

from __future__ import annotations

import time
from statistics import median

import ipywidgets
from demo_figure import FIGURE
from geometry import states

from memmodel.scene import Figure
from memmodel.widgets import explore


def times(figure: Figure, changes: int = 60) -> list[float]:
    """Return the milliseconds of each of about `changes` changes, spread over the states."""
    shown = explore(figure)
    taken: list[float] = []
    for state in states(figure, changes // 2):
        for name, value in state.items():
            control = shown.controls[name]
            now = value == "on" if isinstance(control, ipywidgets.Checkbox) else value
            if control.value == now:
                continue
            start = time.perf_counter()
            control.value = now
            taken.append((time.perf_counter() - start) * 1000)
            if len(taken) == changes:
                return taken
    return taken


def report(figures: tuple[Figure, ...] = (FIGURE,)) -> None:
    """Print median and worst time of each figure."""
    for figure in figures:
        taken = times(figure)
        print(
            f"notebook, control to picture, {figure.name}: median {median(taken):.0f} ms, "
            f"worst {max(taken):.0f} ms of {len(taken)} changes (aim: under 100)"
        )


if __name__ == "__main__":
    report()
