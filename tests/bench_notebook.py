"""Times a change of a knob in a notebook: from the control's new value to the new picture.

Prints one line a figure. This is the kernel's part; the way to the browser and back adds about as
much again.
"""

from __future__ import annotations

import time
from statistics import median

from geometry import states

from memmodel.figures import MODULES, get
from memmodel.scene import Figure
from memmodel.widgets import explore


def times(figure: Figure, changes: int = 60) -> list[float]:
    """Return the milliseconds of each of about `changes` changes, spread over the states."""
    shown = explore(figure)
    taken: list[float] = []
    for state in states(figure, changes // 2):
        for name, value in state.items():
            if shown.state[name] == value:
                continue
            start = time.perf_counter()
            shown.turn(**{name: value})
            taken.append((time.perf_counter() - start) * 1000)
            if len(taken) == changes:
                return taken
    return taken


def report() -> None:
    """Print median and worst time of each figure of the book."""
    for name in MODULES:
        taken = times(get(name))
        print(
            f"notebook, control to picture, {name}: median {median(taken):.0f} ms, "
            f"worst {max(taken):.0f} ms of {len(taken)} changes (aim: under 100)"
        )


if __name__ == "__main__":
    report()
