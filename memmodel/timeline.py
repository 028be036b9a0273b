"""Orders put on a clock: when each step runs, how long ranks wait, how long stashes live.

Communication takes no time; a step starts as soon as its rank is free and its inputs are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from memmodel.orders import Step

Place = tuple[int, int]  # rank, chunk of the rank

UNIT_COSTS = {"F": 1, "I": 1, "W": 1, "B": 2, "FB": 3}


def resolve_costs(costs: Mapping[str, float] | None = None) -> dict[str, float]:
    """Costs of F, I, W, B and an overlapped F+B ("FB") on one chunk, in any unit of time.

    What is left out: F, I and W cost 1, B costs I + W, FB costs F + B (no gain from overlap).

    >>> resolve_costs({"F": 2})
    {'F': 2, 'I': 1, 'W': 1, 'B': 2, 'FB': 4}
    """
    given = dict(costs or {})
    for name, value in given.items():
        if name not in UNIT_COSTS:
            raise ValueError(f"costs: {name!r} is unknown; known are {', '.join(UNIT_COSTS)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"costs: {name} = {value!r} must be a number")
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"costs: {name} = {value!r} must be finite and above 0")
    forward, inputs, weights = (given.get(kind, UNIT_COSTS[kind]) for kind in ("F", "I", "W"))
    backward = given.get("B", inputs + weights)
    overlapped = given.get("FB", forward + backward)
    return {"F": forward, "I": inputs, "W": weights, "B": backward, "FB": overlapped}


class Cell(NamedTuple):
    """One step in the grid of ranks against time."""

    rank: int
    step: int
    start: float
    end: float
    actions: Step


class Span(NamedTuple):
    """The life of one thing kept for a (chunk, microbatch): from `start` to `end`.

    `forward`, `backward` (B or I) and `weight` (B or W) are the steps of the rank that make and
    use it, so that a picture can point from a span to its cells and back.
    """

    chunk: int
    microbatch: int
    start: float
    end: float
    forward: int
    backward: int
    weight: int


class Life(NamedTuple):
    """Which steps of a rank work on one (chunk, microbatch)."""

    chunk: int
    microbatch: int
    forward: int
    backward: int
    weight: int


def lives(steps: Iterable[Step]) -> tuple[Life, ...]:
    """The forward, backward and weight-gradient step of every (chunk, microbatch), by forward."""
    found: dict[tuple[int, int], dict[str, int]] = {}
    for index, step in enumerate(steps):
        for kind, chunk, microbatch in step:
            marks = found.setdefault((chunk, microbatch), {})
            if kind == "F":
                marks["forward"] = index
            if kind in "BI":
                marks["backward"] = index
            if kind in "BW":
                marks["weight"] = index
    return tuple([Life(*key, **marks) for key, marks in found.items()])


@dataclass(frozen=True)
class Timeline:
    """When each step of each rank runs.

    `start[rank][step]` and `end[rank][step]` in the unit of the costs; `work[rank]` is the time
    that a rank is busy; its bubble is the makespan less its work.
    """

    orders: tuple[tuple[Step, ...], ...]
    start: tuple[tuple[float, ...], ...]
    end: tuple[tuple[float, ...], ...]
    work: tuple[float, ...]

    @cached_property
    def makespan(self) -> float:
        """Time from the first start to the last end."""
        return max(ends[-1] for ends in self.end)

    @cached_property
    def bubbles(self) -> tuple[float, ...]:
        """Idle time of each rank within the makespan."""
        return tuple([self.makespan - work for work in self.work])

    @cached_property
    def bubble(self) -> float:
        """Idle time of the rank that idles longest."""
        return max(self.bubbles)

    @cached_property
    def bubble_fraction(self) -> float:
        """`bubble` as a part of the makespan."""
        return self.bubble / self.makespan

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The grid, rank by rank and left to right."""
        return tuple(
            [
                Cell(rank, index, self.start[rank][index], self.end[rank][index], step)
                for rank, steps in enumerate(self.orders)
                for index, step in enumerate(steps)
            ]
        )

    def spans(self, rank: int, release: str = "W") -> tuple[Span, ...]:
        """The life of every stash of a rank, from the start of F to the end of what releases it.

        `release` "W": the weight gradient is done. "I": the input gradient is done.
        """
        start, end = self.start[rank], self.end[rank]
        return tuple(
            [
                Span(chunk, microbatch, start[f], end[w if release == "W" else b], f, b, w)
                for chunk, microbatch, f, b, w in lives(self.orders[rank])
            ]
        )

    def gradient_spans(self, rank: int) -> tuple[Span, ...]:
        """The life of every output gradient that a split backward holds: start of I to end of W.

        A whole backward uses its output gradient up at once and does not appear.
        """
        start, end = self.start[rank], self.end[rank]
        return tuple(
            [
                Span(chunk, microbatch, start[b], end[w], f, b, w)
                for chunk, microbatch, f, b, w in lives(self.orders[rank])
                if w != b
            ]
        )


def levels(spans: Iterable[Span], num_chunks: int) -> tuple[tuple[float, tuple[int, ...]], ...]:
    """How many spans are alive, per chunk, from each time of change to the next.

    What ends at a time is gone before what starts then: on one rank steps follow one another.
    """
    changes: dict[float, list[int]] = {}
    for span in spans:
        changes.setdefault(span.start, [0] * num_chunks)[span.chunk] += 1
        changes.setdefault(span.end, [0] * num_chunks)[span.chunk] -= 1
    counts, found = [0] * num_chunks, []
    for time in sorted(changes):
        counts = [count + change for count, change in zip(counts, changes[time], strict=True)]
        found.append((time, tuple(counts)))
    return tuple(found)


def _neighbours(
    stages: tuple[tuple[int, ...], ...],
) -> tuple[dict[Place, Place | None], dict[Place, Place | None]]:
    """Where the stage before and the stage after each chunk's own stage are hosted."""
    hosts = [stage for chunks in stages for stage in chunks]
    copied = len(hosts) > len(set(hosts))
    where = {
        (chunk * copied, stage): (rank, chunk)
        for rank, chunks in enumerate(stages)
        for chunk, stage in enumerate(chunks)
    }
    before, after = (
        {place: where.get((copy, stage + hop)) for (copy, stage), place in where.items()}
        for hop in (-1, 1)
    )
    return before, after


class _Clock:
    """A replay under way: what each rank has run, and what that makes ready elsewhere."""

    def __init__(
        self,
        orders: tuple[tuple[Step, ...], ...],
        stages: tuple[tuple[int, ...], ...],
        costs: Mapping[str, float],
    ) -> None:
        self.orders, self.costs = orders, costs
        self.before, self.after = _neighbours(stages)
        # Of each place and microbatch: when its forward was done, and when its input gradient was.
        self.forward: dict[Place, dict[int, float]] = {place: {} for place in self.before}
        self.backward: dict[Place, dict[int, float]] = {place: {} for place in self.before}
        self.start: list[list[float]] = [[] for _ in orders]
        self.end: list[list[float]] = [[] for _ in orders]

    def ready(self, place: Place, kind: str, microbatch: int) -> float | None:
        """When the input of an action is there; None if that is not known yet."""
        if kind == "W":
            return 0  # its input gradient comes earlier on the same rank
        if kind == "F":
            source = self.before[place]
            return 0 if source is None else self.forward[source].get(microbatch)
        source = self.after[place]
        done = self.forward[place] if source is None else self.backward[source]
        return done.get(microbatch)

    def advance(self, rank: int) -> set[int]:
        """Run a rank as far as it gets; return the ranks that this may have woken."""
        woken: set[int] = set()
        steps, starts, ends = self.orders[rank], self.start[rank], self.end[rank]
        now = ends[-1] if ends else 0
        for index in range(len(ends), len(steps)):
            step = steps[index]
            for kind, chunk, microbatch in step:
                time = self.ready((rank, chunk), kind, microbatch)
                if time is None:
                    return woken
                now = max(now, time)
            starts.append(now)
            now += self.costs[step[0].kind if len(step) == 1 else "FB"]
            ends.append(now)
            for kind, chunk, microbatch in step:
                if kind != "W":
                    place = (rank, chunk)
                    (self.forward if kind == "F" else self.backward)[place][microbatch] = now
                    reader = (self.after if kind == "F" else self.before)[place]
                    if reader is not None and reader[0] != rank:
                        woken.add(reader[0])
        return woken


def replay(
    orders: tuple[tuple[Step, ...], ...],
    stages: tuple[tuple[int, ...], ...],
    costs: Mapping[str, float],
) -> Timeline:
    """Put orders on the clock: `stages[rank][chunk]` says which stage of the model a chunk is.

    A stage that several chunks host (two copies of the model) is followed within the same copy:
    chunk 0 of a rank hands over to chunk 0 of another, chunk 1 to chunk 1. Raises ValueError where
    the ranks wait for one another for ever.
    """
    clock = _Clock(orders, stages, costs)
    awake = set(range(len(orders)))
    while awake:  # in rounds: to pop from one large, ever emptier set would search it every time
        awake = set().union(*map(clock.advance, awake))
    for rank, (steps, ends) in enumerate(zip(orders, clock.end, strict=True)):
        if len(ends) < len(steps):
            names = "+".join(map(str, steps[len(ends)]))
            raise ValueError(f"orders: rank {rank} waits for ever before {names}")
    return Timeline(
        orders=orders,
        start=tuple(map(tuple, clock.start)),
        end=tuple(map(tuple, clock.end)),
        work=tuple([_work(steps, costs) for steps in orders]),
    )


def _work(steps: tuple[Step, ...], costs: Mapping[str, float]) -> float:
    """Busy time of a rank: how often each cost occurs, times the cost, so that it rounds once."""
    kinds = ["FB" if len(step) == 2 else step[0].kind for step in steps]
    parts = [kinds.count(kind) * cost for kind, cost in costs.items()]
    return sum(parts) if all(isinstance(part, int) for part in parts) else math.fsum(parts)
