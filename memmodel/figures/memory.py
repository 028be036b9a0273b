"""Chapter 3: the memory of one rank over a step; its highest moment is what the ledger counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from memmodel import schedule
from memmodel.devices import device
from memmodel.figures import grid
from memmodel.figures.lanes import band
from memmodel.formats import RECIPES, Number, number_text, size_text
from memmodel.ledger import (
    EMBEDDING_PART,
    HEAD_PART,
    STATES,
    RankLedger,
    layer_counts,
    rank_ledger,
)
from memmodel.plan import Plan
from memmodel.recompute import POLICIES
from memmodel.scene import Choice, Figure, Group, Line, Mark, Path, Rect, Scene, Table, Text
from memmodel.tables import gib
from memmodel.timeline import levels

WIDTH, HEIGHT = grid.WIDTH, 410.0
LEFT, RIGHT = grid.LEFT, 516.0
TOP, HIGH = 40.0, 280.0
BOTTOM = TOP + HIGH
KEYS = 532.0  # where the list of parts stands
PICKS = 362.0  # the watermarks of all ranks
RANKS = 8
LIMITS = (100, 200, 400, 800, 1600)  # GiB at which the axis may end
MICROBATCHES = (8, 16, 20, 32, 64)

RECIPE = Choice("recipe", "Precision", tuple((name, name) for name in RECIPES), "dsv3-fp8")
RECOMPUTE = Choice("recompute", "Recompute", tuple((name, name) for name in POLICIES), "dsv3")
COUNT = Choice(
    "microbatches", "Microbatches", tuple((str(count), str(count)) for count in MICROBATCHES), "20"
)


@dataclass(frozen=True)
class Course:
    """Bytes of one rank over a step.

    `static` is by state; `ends` are the embedding's output and the logits, there throughout;
    `stash` the size of one stash of each chunk, and `alive` how many there are of each, from each
    time of change on.
    """

    static: dict[str, Number]
    ends: Number
    stash: tuple[Number, ...]
    alive: tuple[tuple[float, tuple[int, ...]], ...]

    def stashes(self, counts: tuple[int, ...]) -> Number:
        """Bytes of so many stashes of each chunk."""
        return sum(count * size for count, size in zip(counts, self.stash, strict=True))

    @property
    def constant(self) -> Number:
        """Bytes that are there from the start of the step to its end."""
        return sum(self.static.values()) + self.ends

    @property
    def watermark(self) -> tuple[float, tuple[int, ...], Number]:
        """The first moment with the most bytes: when, how many stashes, and how many bytes."""
        time, counts = max(self.alive, key=lambda level: self.stashes(level[1]))
        return time, counts, self.constant + self.stashes(counts)


@lru_cache(maxsize=32)
def course(plan: Plan, rank: int) -> Course:
    """The memory of a rank under a plan, from the replay of its schedule."""
    ledger = rank_ledger(plan, rank)
    run = schedule.timeline(
        plan.schedule,
        pp=plan.pp,
        microbatches=plan.num_microbatches,
        virtual_stages=plan.num_virtual_stages,
    )
    tokens = Fraction(plan.seq_len * plan.microbatch_size, plan.tp * plan.cp)
    per_token = [
        sum(
            layers * plan.stashes[kind].bytes_per_token
            for kind, layers in layer_counts(plan, (chunk,)).items()
        )
        for chunk in ledger.chunks
    ]
    ends = [line.bytes for line in ledger.lines if line.part in (EMBEDDING_PART, HEAD_PART)]
    return Course(
        static={state: ledger.totals[state] for state in STATES},
        ends=sum(ends),
        stash=tuple([whole(tokens * size) for size in per_token]),
        alive=levels(run.spans(rank), len(ledger.chunks)),
    )


def whole(value: Fraction) -> Number:
    """A value as an integer if it is one: these are many times faster."""
    return value.numerator if value.denominator == 1 else value


@lru_cache(maxsize=32)
def ledgers(plan: Plan) -> tuple[RankLedger, ...]:
    """The ledgers of all ranks."""
    return tuple([rank_ledger(plan, rank) for rank in range(plan.pp)])


@lru_cache(maxsize=32)
def plan_of(name: str, microbatches: str, recompute: str, recipe: str) -> Plan:
    """The plan of this chapter's figures: 8 ranks, EP 64, ZeRO-1."""
    virtual_stages = grid.VIRTUAL_STAGES if name == "interleaved" else None
    return Plan(
        pp=RANKS,
        schedule=name,
        microbatches=int(microbatches),
        recompute=recompute,
        recipe=recipe,
        virtual_stages=virtual_stages,
    )


# Parts from the bottom of the stack to its top, as keys of palette and list.
_STASHES = ("activations soft", "activations")


def _stack(here: Course, end: float, limit: int) -> Iterator[Mark]:
    """The filled picture: static parts as bars of the whole step, stashes as steps."""
    unit = HIGH / (limit * 2**30)  # scene units per byte
    seen = grid.Window(0, end, end, LEFT, RIGHT)
    yield from grid.axis(seen, TOP, BOTTOM)
    floor = 0.0
    for state, size in here.static.items():
        high = float(size) * unit
        yield Rect(LEFT, BOTTOM - floor - high, RIGHT - LEFT, high, state, id=f"band-{state}")
        floor += high
    high = float(here.ends) * unit
    yield Rect(
        LEFT, BOTTOM - floor - high, RIGHT - LEFT, high, "activations", hatch=True, id="band-ends"
    )
    floor += high
    for chunk, role in enumerate(_STASHES[: len(here.stash)]):
        steps = [
            (
                time,
                float(here.stashes((*counts[:chunk], *[0] * (len(counts) - chunk)))),
                float(here.stashes((*counts[: chunk + 1], *[0] * (len(counts) - chunk - 1)))),
            )
            for time, counts in here.alive
        ]
        yield from band(role, steps, seen, BOTTOM - floor, unit)


def _axis(limit: int, nominal: int) -> Iterator[Mark]:
    """GiB at the left, and the line of what the device has."""
    unit = HIGH / limit
    ticks = {limit * step // 5 for step in range(6)} - {nominal}
    for tick in sorted(ticks):
        y = BOTTOM - tick * unit
        yield Line(LEFT - 4, y, LEFT, y, "axis")
        yield Text(LEFT - 8, y + 4, str(tick), "muted", 12, "end", id=f"value-tick-{tick}-gib")
    y = BOTTOM - nominal * unit
    yield Line(LEFT, y, RIGHT, y, "limit", dash=True, weight=1.5, id="limit")
    yield Text(LEFT - 8, y + 4, f"{nominal} GiB", "limit", 12, "end", bold=True, id="value-limit")
    yield Line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")


def _keys(rows: list[tuple[str, str, bool, str]]) -> Iterator[Mark]:
    """The parts, from the top of the stack down, with what they hold at the watermark."""
    for at, (label, role, hatch, value) in enumerate(reversed(rows)):
        y = TOP + 8 + at * 44
        yield Rect(KEYS, y, 12, 12, role, hatch=hatch)
        yield Text(KEYS + 18, y + 11, label, "muted", 12, id=f"key-{at}")
        yield Text(KEYS + 18, y + 27, value, "text", 13, id=f"value-key-{at}")


def _picks(plan: Plan, rank: int) -> Iterator[Mark]:
    """The watermark of every rank; a click shows its step."""
    pitch = (grid.RIGHT - LEFT) / plan.pp
    most = max(ledger.total for ledger in ledgers(plan))
    yield Text(LEFT - 8, PICKS + 16, "rank", "muted", 12, "end", id="label-rank")
    yield Text(LEFT - 8, PICKS + 33, "GiB", "muted", 12, "end", id="label-gib")
    for at, ledger in enumerate(ledgers(plan)):
        x, here = LEFT + at * pitch, at == rank
        marks = (
            Rect(
                x,
                PICKS,
                pitch - 6,
                42,
                "text" if here else "axis",
                filled=False,
                outline="solid",
                radius=4,
            ),
            Text(
                x + pitch / 2 - 3,
                PICKS + 16,
                str(at),
                "text",
                12,
                "middle",
                bold=here,
                id=f"pick-{at}",
            ),
            Text(
                x + pitch / 2 - 3,
                PICKS + 33,
                gib(ledger.total).removesuffix(" GiB"),
                "text",
                12,
                "middle",
                bold=ledger.total == most,
                id=f"value-pick-{at}",
            ),
        )
        yield Group(
            f"rank-{at}", marks, knob="rank", value=str(at), label=f"Rank {at}", pressed=here
        )


def _draw(schedule: str, rank: str, microbatches: str, recompute: str, recipe: str) -> Scene:
    plan, at = plan_of(schedule, microbatches, recompute, recipe), int(rank)
    here = course(plan, at)
    time, counts, total = here.watermark
    run = grid.Run(schedule, plan.pp, plan.num_microbatches)
    nominal = device(plan.device).nominal_bytes
    limit = next(limit for limit in LIMITS if total <= limit * 2**30)
    gap = nominal - total
    rows = [
        *((state, state, False, size_text(size)) for state, size in here.static.items()),
        ("embedding + logits", "activations", True, size_text(here.ends)),
    ]
    for chunk, role in enumerate(_STASHES):
        count = counts[chunk] if chunk < len(counts) else 0
        value = f"{count} × {size_text(here.stash[chunk])}" if count else "none"
        rows.append((f"chunk {chunk} stashes", role, False, value))
    title = f"Rank {at}: {gib(total)} at time {time:g}"
    slack = f"{gib(max(gap, -gap))} {'under' if gap >= 0 else 'over'} {nominal // 2**30} GiB"
    x, y = LEFT + (RIGHT - LEFT) * time / run.timeline.makespan, TOP + HIGH
    y -= float(total) * HIGH / (limit * 2**30)
    marks: list[Mark] = [
        Text(LEFT, 16, f"{title}, {slack}", "text", 13, bold=True, id="title"),
        *_stack(here, run.timeline.makespan, limit),
        *_axis(limit, nominal // 2**30),
        Line(LEFT, y, RIGHT, y, "text", dash=True, id="watermark"),
        Path(((x - 5, y - 8), (x + 5, y - 8), (x, y)), "text", closed=True, id="watermark-time"),
        *_keys(rows),
        *_picks(plan, at),
    ]
    heaviest = max(ledgers(plan), key=lambda ledger: ledger.total)
    status = f"{title}, {slack}. Heaviest is rank {heaviest.rank} with {gib(heaviest.total)}."
    parts = ", ".join(f"{label} {value}" for label, _, _, value in rows)
    return Scene(
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(marks),
        alt=f"Memory of a rank over a step of {run.title}, stacked: {parts}. {status}",
        status=status,
        table=_table(here),
    )


def _table(here: Course) -> Table:
    _, counts, total = here.watermark
    parts: list[tuple[str, Number]] = [*here.static.items(), ("embedding + logits", here.ends)]
    for chunk, (count, size) in enumerate(zip(counts, here.stash, strict=True)):
        parts.append((f"{count} stashes of chunk {chunk}", count * size))
    parts.append(("total", total))
    return Table(
        ("at the watermark", "size", "bytes"),
        tuple([(name, size_text(size), number_text(size)) for name, size in parts]),
    )


FIGURES = {
    "step-memory": Figure(
        name="step-memory",
        title="The memory of one rank over a step",
        knobs=(
            Choice("schedule", "Schedule", grid.SCHEDULES, "dualpipev"),
            Choice("rank", "Rank", tuple((str(rank), str(rank)) for rank in range(RANKS)), "1"),
            COUNT,
            RECOMPUTE,
            RECIPE,
        ),
        draw=_draw,
        caption="DeepSeek-V3 on 2,048 GPUs: PP 8, EP 64, ZeRO-1, one sequence of 4,096 tokens a "
        "microbatch. Stashes are kept until their weight gradient; embedding output and logits "
        "count for one microbatch, throughout. The axis is linear; its end doubles where needed.",
    )
}
