"""Chapter 3: what each schedule pays, idle time against the memory of activations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log2
from typing import NamedTuple

from memmodel.devices import device
from memmodel.figures import grid
from memmodel.figures.memory import COUNT, RANKS, RECIPE, RECOMPUTE, ledgers, plan_of
from memmodel.formats import Number, number_text, size_text
from memmodel.scene import Figure, Line, Mark, Path, Rect, Scene, Table, Text
from memmodel.schedule import SCHEDULES
from memmodel.tables import gib

WIDTH, HEIGHT = grid.WIDTH, 430.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 484.0, 44.0, 384.0
LOW, HIGH = 30, 40  # log2 of the bytes at both ends of the axis: 1 GiB and 1 TiB
WIDEST = 0.9  # the longest bubble on the axis: one microbatch at a time has 7/8
DOT = 10.0
TITLES = dict(grid.SCHEDULES)
NAMES, PITCH = 514.0, 44.0  # the list of schedules beside the plot


class Point(NamedTuple):
    """A schedule: its bubble as a part of the step, and the activations of its heaviest rank."""

    name: str
    bubble: float
    nbytes: Number
    rank: int  # the first that holds so much

    @property
    def place(self) -> tuple[float, float]:
        """Where it lies in the picture."""
        return across(self.bubble), up(self.nbytes)


def across(bubble: float) -> float:
    """The x of a part of the step; the axis is linear."""
    return LEFT + (RIGHT - LEFT) * bubble / WIDEST


def up(nbytes: Number) -> float:
    """The y of a size; a tick is a factor of two."""
    return BOTTOM - (BOTTOM - TOP) * (log2(nbytes) - LOW) / (HIGH - LOW)


def point(name: str, microbatches: str, recompute: str, recipe: str) -> Point:
    """A schedule's place. Raises ValueError where it cannot run."""
    plan = plan_of(name, microbatches, recompute, recipe)
    run = grid.Run(name, plan.pp, plan.num_microbatches)
    heaviest = max(ledgers(plan), key=lambda ledger: ledger.totals["activations"])
    activations = heaviest.totals["activations"]
    return Point(name, run.timeline.bubble_fraction, activations, heaviest.rank)


def front(points: list[Point]) -> list[Point]:
    """The schedules that no other beats in both, by rising bubble.

    >>> [p.name for p in front([Point("a", 0.1, 5, 0), Point("b", 0.2, 5, 0), Point("c", 0, 9, 0)])]
    ['c', 'a']
    """
    best: list[Point] = []
    for candidate in sorted(points, key=lambda p: (p.bubble, p.nbytes)):
        if not best or candidate.nbytes < best[-1].nbytes:
            best.append(candidate)
    return best


def _axes() -> Iterator[Mark]:
    for percent in range(0, 91, 10):
        x = across(percent / 100)
        yield Line(x, TOP, x, BOTTOM, "grid")
        yield Text(x, BOTTOM + 17, f"{percent} %", "muted", 12, "middle", id=f"tick-{percent}")
    for power in range(LOW, HIGH + 1):
        y = up(2**power)
        yield Line(LEFT, y, RIGHT, y, "grid")
        label = size_text(2**power).replace(".00", "").replace(".0", "")
        yield Text(LEFT - 8, y + 4, label, "muted", 12, "end", id=f"tick-{label}")
    yield Line(LEFT, TOP, LEFT, BOTTOM, "axis")
    yield Line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")
    yield Text(RIGHT, BOTTOM + 36, "bubble, part of the step", "muted", 12, "end", id="across")
    yield Text(8, 18, "activations of the heaviest rank", "text", 13, bold=True, id="up")


def _names(points: list[Point], missing: Iterable[str]) -> Iterator[Mark]:
    """What the dots are, from the top one down, each tied to its dot; then what cannot run."""
    ordered = sorted(points, key=lambda p: (p.place[1], -p.bubble))
    for row, each in enumerate(ordered):
        (x, y), top = each.place, TOP + row * PITCH
        yield Path(((x, y), (NAMES - 22, top + 8), (NAMES - 6, top + 8)), "ghost")
        yield Text(NAMES, top + 12, TITLES[each.name], "text", 13, id=f"value-{each.name}")
        words = f"{100 * each.bubble:.1f} %, {gib(each.nbytes)}"
        yield Text(NAMES, top + 28, words, "muted", 12, id=f"value-numbers-{each.name}")
    for row, name in enumerate(missing, len(ordered)):
        top = TOP + row * PITCH
        yield Text(NAMES, top + 12, TITLES[name], "muted", 13, id=f"value-{name}")
        yield Text(
            NAMES, top + 28, "does not run like this", "muted", 12, id=f"value-numbers-{name}"
        )


def _draw(recompute: str, recipe: str, microbatches: str) -> Scene:
    points, refusals = [], {}
    for name in SCHEDULES:
        try:
            points.append(point(name, microbatches, recompute, recipe))
        except ValueError as error:
            refusals[name] = str(error)
    best = front(points)
    # What a GPU has beside the states of an interior rank of a single copy of the model.
    interior = ledgers(plan_of("1f1b", microbatches, recompute, recipe))[1]
    room = device("h100").nominal_bytes - (interior.total - interior.totals["activations"])
    y = up(room)
    steps = [best[0].place]
    for after in best[1:]:
        steps += [(after.place[0], steps[-1][1]), after.place]
    marks: list[Mark] = [
        *_axes(),
        Line(LEFT, y, RIGHT, y, "limit", dash=True, weight=1.5, id="room"),
        Text(
            WIDTH - 6,
            18,
            f"dashed: {gib(room)}, what 80 GiB leave beside the states",
            "limit",
            12,
            "end",
            id="room-label",
        ),
        *_names(points, refusals),
    ]
    if len(steps) > 1:
        marks.append(Path(tuple(steps), "activations", weight=1.5, id="front"))
    for each in points:
        x, y = each.place
        words = f"{TITLES[each.name]}: {gib(each.nbytes)}, {100 * each.bubble:.1f} %"
        on_front = each in best
        marks.append(
            Rect(
                x - DOT / 2,
                y - DOT / 2,
                DOT,
                DOT,
                "activations" if on_front else "neutral",
                filled=on_front,
                outline="solid",
                radius=DOT / 2,
                id=f"dot-{each.name}",
                title=words,
            )
        )
    told = "; ".join(
        f"{TITLES[each.name]} {100 * each.bubble:.1f} % and {gib(each.nbytes)}" for each in best
    )
    missing = "".join(f" {TITLES[name]} is missing: {why}." for name, why in refusals.items())
    status = f"Not beaten in both: {told}.{missing}"
    return Scene(
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(marks),
        alt=f"A dot for each schedule, bubble against peak activations, log scale. {status}",
        status=status,
        table=_table(points, best, refusals),
    )


def _table(points: list[Point], best: list[Point], refusals: dict[str, str]) -> Table:
    found = {each.name: each for each in points}
    rows = []
    for name, kind in SCHEDULES.items():
        each = found.get(name)
        if each is None:
            rows.append((TITLES[name], "", "", "", refusals[name]))
            continue
        note = "not beaten" if each in best else ""
        if kind.placement == "bidirectional":
            note = f"{note}, two copies of the weights".removeprefix(", ")
        rows.append(
            (
                TITLES[name],
                f"{100 * each.bubble:.1f} %",
                gib(each.nbytes),
                number_text(each.nbytes),
                note,
            )
        )
    return Table(("schedule", "bubble", "activations", "bytes", "note"), tuple(rows))


FIGURES = {
    "pareto": Figure(
        name="pareto",
        title="Idle time against memory",
        knobs=(RECOMPUTE, RECIPE, COUNT),
        draw=_draw,
        caption=f"DeepSeek-V3 on 2,048 GPUs, {RANKS} ranks, EP 64, one sequence of 4,096 tokens a "
        "microbatch; interleaved 1F1B with two chunks a rank. Unit costs F = I = W = 1 a chunk, "
        "without communication or replay. Filled: no other schedule is better in both.",
    )
}
