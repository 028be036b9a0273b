"""The classic picture of a pipeline: ranks against time, a cell for each piece of work.

A first chunk is light and a second one dark, in either theme by contrast to the ground. Where a
forward runs overlapped with a backward the row is halved: forward above, backward below. A weight
gradient is lower than the rest, so that the two halves of a backward differ without colour too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from memmodel import schedule
from memmodel.orders import Action
from memmodel.scene import Mark, Path, Rect, Text, text_width
from memmodel.timeline import Cell, Timeline

WIDTH = 680.0
LEFT, RIGHT = 62.0, 672.0  # of everything that stands over the time axis
VIRTUAL_STAGES = 2  # of interleaved 1F1B, so that it too has a light and a dark chunk

KINDS = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}
SCHEDULES = tuple(
    (name, "one at a time" if name == "single" else kind.title)
    for name, kind in schedule.SCHEDULES.items()
)
_LOW = 0.4  # a weight gradient leaves this part of its row free
_GAP = 0.6  # between neighbours, in scene units


class Run(NamedTuple):
    """A schedule at its sizes."""

    name: str
    ranks: int
    microbatches: int

    @property
    def timeline(self) -> Timeline:
        """The run on the clock of unit costs. Raises ValueError where it cannot be."""
        virtual_stages = VIRTUAL_STAGES if self.name == "interleaved" else None
        return schedule.timeline(
            self.name, pp=self.ranks, microbatches=self.microbatches, virtual_stages=virtual_stages
        )

    @property
    def title(self) -> str:
        """What the papers call the schedule."""
        return schedule.SCHEDULES[self.name].title


@lru_cache(maxsize=32)
def cells(run: Run) -> tuple[tuple[Cell, ...], ...]:
    """The cells of each rank, from left to right."""
    found: list[list[Cell]] = [[] for _ in range(run.ranks)]
    for cell in run.timeline.cells:
        found[cell.rank].append(cell)
    return tuple(map(tuple, found))


@dataclass(frozen=True)
class Window:
    """The part of the step that is seen, from one time to another, and where it is drawn."""

    start: float
    end: float
    makespan: float
    left: float = LEFT
    right: float = RIGHT

    @property
    def whole(self) -> bool:
        """Whether the step is seen from its start to its end."""
        return self.end - self.start == self.makespan

    @property
    def scale(self) -> float:
        """Scene units per unit of time."""
        return (self.right - self.left) / (self.end - self.start)

    def x(self, time: float) -> float:
        """Where a time lies; what is out of sight lies on the border."""
        return self.left + (min(max(time, self.start), self.end) - self.start) * self.scale

    def shows(self, start: float, end: float) -> bool:
        """Whether any of a stretch of time is seen."""
        return end > self.start and start < self.end

    def edges(self, start: float, end: float) -> tuple[float, float]:
        """Left and right of what fills a stretch of time, with a gap to its neighbour."""
        left, right = self.x(start), self.x(end)
        return left, right - min(_GAP, (right - left) / 4)


def window(makespan: float, zoom: int, at: int) -> Window:
    """One `zoom`-th of a step, from the time `at` on, moved back where it would end too late.

    >>> seen = window(134, 4, 120)
    >>> seen.start, seen.end
    (100, 134)
    """
    length = ceil(makespan / zoom)
    start = int(min(at, makespan - length))
    return Window(start, start + length, makespan)


def role(kind: str, chunk: int) -> str:
    """The palette entry of a piece of work.

    >>> role("F", 0), role("W", 1)
    ('forward soft', 'weight gradient')
    """
    return KINDS[kind] + ("" if chunk else " soft")


def parts(cell: Cell, top: float, high: float) -> Iterator[tuple[Action, float, float]]:
    """(action, top, bottom) of each piece of a cell in a row of this height."""
    if len(cell.actions) == 2:
        forward, backward = cell.actions
        yield forward, top, top + high / 2
        yield backward, top + high / 2, top + high
    else:
        (action,) = cell.actions
        yield action, top + (_LOW * high if action.kind == "W" else 0.0), top + high


def row(steps: tuple[Cell, ...], seen: Window, top: float, high: float) -> tuple[Mark, ...]:
    """One rank's row: cells with their microbatch where there is room, else colours alone.

    Without numbers a row is a few combs: outlines of one role whose teeth are the cells. They are
    a tenth of the marks and of the time, and look the same.
    """
    visible = [cell for cell in steps if seen.shows(cell.start, cell.end)]
    if seen.scale >= number_width("10") and high >= 13:
        marks: list[Mark] = []
        for cell in visible:
            for action, above, below in parts(cell, top, high):
                marks += numbered(action, cell, seen, above, below)
        return tuple(marks)
    combs: dict[str, list[tuple[float, float]]] = {}
    for cell in visible:
        left, right = seen.edges(cell.start, cell.end)
        for action, above, below in parts(cell, top, high):
            # Forwards hang from the row's upper edge, all else stands on its lower one: the comb's
            # back runs along that edge and has no height.
            back, tip = (above, below) if action.kind == "F" else (below, above)
            combs.setdefault(role(action.kind, action.chunk), []).extend(
                ((left, back), (left, tip), (right, tip), (right, back))
            )
    return tuple([Path(tuple(points), name, closed=True) for name, points in combs.items()])


def number_width(number: str) -> float:
    """Scene units that a cell must be wide for this number to stand in it."""
    return text_width(number, 12) + 2


def numbered(
    action: Action, cell: Cell, seen: Window, above: float, below: float, *, named: bool = False
) -> tuple[Mark, ...]:
    """A piece of work with its microbatch; `named` puts the letter of its kind in front."""
    left, right = seen.edges(cell.start, cell.end)
    box = Rect(left, above, right - left, below - above, role(action.kind, action.chunk))
    ink = "ground" if action.chunk else "text"
    number = str(action.microbatch)
    for words in (f"{action.kind}{number}", number) if named else (number,):
        if right - left >= number_width(words) and below - above >= 12.6:
            middle = (above + below) / 2 + 3.3
            return box, Text((left + right) / 2, middle, words, ink, 12, "middle")
    return (box,)


def axis(seen: Window, top: float, bottom: float) -> tuple[Mark, ...]:
    """Ticks of time under a picture that ends at `bottom`."""
    length = seen.end - seen.start
    step = next(size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if length / size <= 12)
    marks: list[Mark] = []
    first = -(-seen.start // step)
    for index in range(int((seen.end - first * step) // step) + 1):
        time = first * step + index * step
        x = seen.x(time)
        marks.append(Rect(x - 0.5, top, 1, bottom - top, "grid"))
        if x < seen.right - 8:
            marks.append(
                Text(x, bottom + 15, f"{time:g}", "muted", 12, "middle", id=f"value-tick-{index}")
            )
    return tuple(marks)


def legend(top: float) -> tuple[Mark, ...]:
    """What the colours mean."""
    marks: list[Mark] = []
    x = LEFT
    for kind, words in KINDS.items():
        for chunk in (0, 1):
            tall = 14 * (1 - _LOW) if kind == "W" else 14
            marks.append(Rect(x + 13 * chunk, top + 14 - tall, 12, tall, role(kind, chunk)))
        marks.append(Text(x + 31, top + 12, words, "muted", 12, id=f"legend-{kind}"))
        x += 31 + text_width(words, 12) + 12
    words = "(chunks 0, 1)"
    marks.append(Text(x - 4, top + 12, words, "muted", 12, id="legend-chunks"))
    return tuple(marks)
