"""What one rank of a pipeline keeps for backward: a bar for each stash, and how many there are.

Bars are packed into the fewest lanes in which they do not overlap, so the number of lanes is the
number alive at once: the reader can count them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import heappop, heappush
from typing import NamedTuple

from memmodel.figures.grid import LEFT, RIGHT, Run, Window, number_width
from memmodel.scene import Group, Line, Mark, Path, Rect, Text
from memmodel.timeline import Span, levels

TARGET = 24.0  # what can be clicked is at least this wide and high
Levels = tuple[tuple[float, tuple[int, ...]], ...]


class Bar(NamedTuple):
    """A bar of the lanes: a stash, or the output gradient that a split backward holds."""

    span: Span
    lane: int
    gradient: bool


class Kept(NamedTuple):
    """Everything that a rank keeps during a step."""

    bars: tuple[Bar, ...]
    lanes: int
    levels: Levels  # stashes alive per chunk, from each time of change on
    gradients: Levels  # output gradients held, likewise
    time: float  # of the first moment with most stashes
    peak: tuple[int, ...]  # stashes of each chunk at that moment
    most_gradients: int


def pack(spans: Iterable[Span]) -> list[int]:
    """The lane of each span, given in order of start; no two in a lane overlap.

    Taking the lowest free lane never opens more of them than spans are alive at once.
    """
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    lanes: list[int] = []
    for span in spans:
        while busy and busy[0][0] <= span.start:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        heappush(busy, (span.end, lane))
        lanes.append(lane)
    return lanes


@lru_cache(maxsize=64)
def kept(run: Run, rank: int, release: str, pending: bool) -> Kept:
    """What a rank keeps: stashes, and below them the output gradients if they are asked for."""
    timeline, chunks = run.timeline, 2
    stashes = sorted(timeline.spans(rank, release), key=lambda span: span.start)
    bars = [Bar(span, lane, False) for span, lane in zip(stashes, pack(stashes), strict=True)]
    counts = levels(stashes, chunks)
    time, peak = max(counts, key=lambda level: sum(level[1]))
    gradients = sorted(timeline.gradient_spans(rank) if pending else (), key=lambda s: s.start)
    held = levels(gradients, chunks)
    bars += [
        Bar(span, sum(peak) + lane, True)
        for span, lane in zip(gradients, pack(gradients), strict=True)
    ]
    most = max((sum(level[1]) for level in held), default=0)
    return Kept(tuple(bars), sum(peak) + most, counts, held, time, peak, most)


def name(span: Span) -> str:
    """What a stash is called in knobs: chunk and microbatch."""
    return f"{span.chunk}.{span.microbatch}"


def lane_marks(found: Kept, seen: Window, top: float, pitch: float, chosen: str) -> Iterator[Mark]:
    """The bars in their lanes; a bar that is large enough can be clicked."""
    for bar in found.bars:
        span = bar.span
        if not seen.shows(span.start, span.end):
            continue
        left, right = seen.edges(span.start, span.end)
        y, key = top + bar.lane * pitch, name(span)
        faint = chosen not in ("", key)
        role = ("gradients" if bar.gradient else "activations") + ("" if span.chunk else " soft")
        box = Rect(
            left,
            y,
            right - left,
            pitch,
            role,
            faint=faint,
            id=f"{'gradient' if bar.gradient else 'stash'}-{key}",
        )
        marks: tuple[Mark, ...] = (box,)
        number = str(span.microbatch)
        if pitch >= 14 and right - left >= number_width(number):
            ink = "ground" if span.chunk and not faint else "text"
            marks = (box, Text((left + right) / 2, y + pitch / 2 + 4.4, number, ink, 12, "middle"))
        if bar.gradient or right - left < TARGET or pitch < TARGET:
            yield from marks
        else:
            yield pick(f"pick-{key}", marks, span, chosen, seen)
    for lane in range(1, found.lanes):
        y = top + lane * pitch
        yield Line(LEFT, y, RIGHT, y, "ground", weight=1.5 if pitch > 8 else 0.75)


def pick(id: str, marks: tuple[Mark, ...], span: Span, chosen: str, seen: Window) -> Group:  # noqa: A002
    """A button that selects a stash, or nothing if it is selected.

    The window stays; if that is the whole step, the next zoom shows the stash's forward.
    """
    key = name(span)
    at = max(0, span.start - 2) if seen.whole else seen.start
    return Group(
        id,
        marks,
        knob="stash",
        value="" if chosen == key else key,
        label=f"Stash of microbatch {span.microbatch}, chunk {span.chunk}",
        pressed=chosen == key,
        also=(("at", str(int(at))),),
    )


def count_marks(found: Kept, seen: Window, top: float, high: float, most: int) -> Iterator[Mark]:
    """The number alive over time, chunk upon chunk, and its peak; the scale ends at `most`."""
    bottom, unit = top + high, high / most
    bands: list[tuple[str, list[tuple[float, float, float]]]] = [
        ("activations soft", [(time, 0, counts[0]) for time, counts in found.levels]),
        ("activations", [(time, counts[0], sum(counts)) for time, counts in found.levels]),
    ]
    yield Line(LEFT, bottom, RIGHT, bottom, "axis")
    for role, steps in bands:
        yield from band(role, steps, seen, bottom, unit)
    yield from band("gradients soft", _stacked(found), seen, bottom, unit)
    count = sum(found.peak)
    y = bottom - count * unit
    yield Line(LEFT, y, RIGHT, y, "text", dash=True, id="peak")
    if seen.start <= found.time < seen.end:
        x = seen.x(found.time)
        yield Path(((x - 5, y - 8), (x + 5, y - 8), (x, y)), "text", closed=True, id="peak-time")
    label = min(y + 5, bottom - 15)
    yield Text(LEFT - 8, label, str(count), "text", 13, "end", bold=True, id="value-peak")
    yield Text(LEFT - 8, bottom, "alive", "muted", 12, "end", id="label-alive")


def _stacked(found: Kept) -> list[tuple[float, float, float]]:
    """The output gradients held, on top of the stashes alive at the same time."""
    changes = sorted({time for time, _ in (*found.levels, *found.gradients)})
    steps: list[tuple[float, float, float]] = []
    stashes = gradients = 0
    below, above = dict(found.levels), dict(found.gradients)
    for time in changes if found.gradients else ():
        stashes = sum(below[time]) if time in below else stashes
        gradients = sum(above[time]) if time in above else gradients
        steps.append((time, stashes, stashes + gradients))
    return steps


def band(
    role: str, steps: list[tuple[float, float, float]], seen: Window, bottom: float, unit: float
) -> Iterator[Path]:
    """A filled band between two step curves, as (time, lower, upper) from each time on."""
    lower: list[tuple[float, float]] = []
    upper: list[tuple[float, float]] = []
    ends = [*(time for time, _, _ in steps[1:]), seen.end]
    for (time, low, high), end in zip(steps, ends, strict=False):
        if seen.shows(time, end):
            left, right = seen.x(time), seen.x(end)
            lower += ((left, bottom - low * unit), (right, bottom - low * unit))
            upper += ((left, bottom - high * unit), (right, bottom - high * unit))
    if any(low != high for _, low, high in steps) and lower:
        yield Path((*upper, *reversed(lower)), role, closed=True)
