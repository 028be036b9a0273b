"""Chapter 3: a schedule as it runs, and the life of everything that one rank keeps for backward."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from memmodel.figures import grid
from memmodel.figures.grid import LEFT, RIGHT, WIDTH, Run, Window
from memmodel.figures.lanes import TARGET, Kept, count_marks, kept, lane_marks, name, pick
from memmodel.scene import (
    Choice,
    Figure,
    Group,
    Hidden,
    Mark,
    Powers,
    Rect,
    Scene,
    Switch,
    Table,
    Text,
    text_width,
)
from memmodel.timeline import Span

# From top to bottom: the grid of all ranks, the chosen rank's row enlarged, one lane for each
# thing that it keeps at once, and how many there are.
GRID, GRID_HIGH, MOST_ROW = 54.0, 224.0, 28.0
STRIP, STRIP_HIGH = 318.0, 52.0
LANES, LANES_HIGH, MOST_LANE = 412.0, 408.0, 24.0
COUNT, COUNT_HIGH = 840.0, 60.0
HEIGHT = COUNT + COUNT_HIGH + 22

MICROBATCHES = (4, 8, 16, 20, 32, 48, 64)
Sets = tuple[tuple[str, str], ...]
RELEASES = {"W": "its weight gradient", "I": "its input gradient (optimistic)"}


@lru_cache(maxsize=32)
def _rows(run: Run, seen: Window) -> tuple[Mark, ...]:
    """The grid's cells. What a click on a rank or a stash changes is drawn over them."""
    high = min(MOST_ROW, GRID_HIGH / run.ranks)
    return tuple(
        [
            mark
            for rank, cells in enumerate(grid.cells(run))
            for mark in grid.row(cells, seen, GRID + rank * high, high - 2)
        ]
    )


def _ranks(run: Run, chosen: int) -> Iterator[Mark]:
    """Labels of the ranks; a click on a row chooses its rank where rows are high enough."""
    high = min(MOST_ROW, GRID_HIGH / run.ranks)
    for rank in range(run.ranks):
        y, here = GRID + rank * high, rank == chosen
        label = Text(
            LEFT - 8,
            y + high / 2 + 3.3,
            f"rank {rank}",
            "text" if here else "muted",
            12,
            "end",
            bold=here,
            id=f"value-rank-{rank}",
        )
        row = Rect(
            LEFT - 2,
            y - 1.5,
            RIGHT - LEFT + 4,
            high - 1,
            "text",
            filled=False,
            outline="solid" if here else "",
        )
        if high < TARGET:
            yield from (label, row)
        else:
            yield Group(
                f"rank-{rank}",
                (label, row),
                knob="rank",
                value=str(rank),
                label=f"Rank {rank}",
                pressed=here,
            )


def _strip(
    run: Run, rank: int, seen: Window, spans: dict[str, Span], chosen: str
) -> Iterator[Mark]:
    """The chosen rank's row enlarged; a piece of work that is wide enough can be clicked."""
    cells = grid.cells(run)[rank]
    if seen.scale < grid.number_width("10"):
        yield from grid.row(cells, seen, STRIP, STRIP_HIGH)
        return
    for cell in cells:
        if not seen.shows(cell.start, cell.end):
            continue
        wide = seen.x(cell.end) - seen.x(cell.start) - 1
        for action, above, below in grid.parts(cell, STRIP, STRIP_HIGH):
            marks = grid.numbered(action, cell, seen, above, below, named=True)
            if wide < TARGET:
                yield from marks
            else:
                span = spans[f"{action.chunk}.{action.microbatch}"]
                yield pick(f"work-{action}", marks, span, chosen, seen)


def _highlight(run: Run, rank: int, seen: Window, span: Span) -> Iterator[Mark]:
    """Frames around the work on a stash, in the grid and in the enlarged row."""
    high = min(MOST_ROW, GRID_HIGH / run.ranks)
    cells = grid.cells(run)[rank]
    for at in sorted({span.forward, span.backward, span.weight}):
        cell = cells[at]
        if not seen.shows(cell.start, cell.end):
            continue
        left, right = seen.edges(cell.start, cell.end)
        for where, top, tall in (
            ("grid", GRID + rank * high, high - 2),
            ("strip", STRIP, STRIP_HIGH),
        ):
            for action, above, below in grid.parts(cell, top, tall):
                if action[1:] == (span.chunk, span.microbatch):
                    yield Rect(
                        left,
                        above,
                        right - left,
                        below - above,
                        "text",
                        filled=False,
                        outline="solid",
                        id=f"chosen-{where}-{action.kind}",
                    )


def _buttons(found: Kept, seen: Window, chosen: str) -> Iterator[Mark]:
    """Steps through time while zoomed in, and through the stashes in the order of forwards."""
    half = (seen.end - seen.start) / 2
    earlier = (("at", str(int(max(0, seen.start - half)))),) if seen.start > 0 else ()
    later = (("at", str(int(seen.start + half))),) if seen.end < seen.makespan else ()
    yield from _pair(STRIP - 31, ("earlier", "Earlier", earlier), ("later", "Later", later))
    spans = [bar.span for bar in found.bars if not bar.gradient]
    index = [name(span) for span in spans].index(chosen) if chosen else -1

    def select(index: int) -> Sets:
        if not 0 <= index < len(spans):
            return ()
        span = spans[index]
        there = not seen.whole and seen.start <= span.start < seen.end
        at = seen.start if there else max(0, span.start - 2)
        return (("stash", name(span)), ("at", str(int(at))))

    yield from _pair(
        LANES - 31,
        ("previous", "Previous stash", select(index - 1)),
        ("next", "Next stash", select(index + 1)),
    )


def _pair(top: float, *buttons: tuple[str, str, Sets]) -> Iterator[Mark]:
    """Small buttons at the right end; without anything to set a button is only its words."""
    right = RIGHT
    for id_, words, sets in reversed(buttons):
        wide = text_width(words, 12) + 16
        frame = Rect(
            right - wide,
            top,
            wide,
            25,
            "axis",
            filled=False,
            outline="solid" if sets else "dashed",
            radius=4,
        )
        label = Text(
            right - wide / 2, top + 17, words, "text" if sets else "muted", 12, "middle", id=id_
        )
        (knob, value), *also = sets or (("", ""),)
        yield Group(
            f"{id_}-button", (frame, label), knob=knob, value=value, label=words, also=tuple(also)
        )
        right -= wide + 12


def _draw(
    schedule: str,
    ranks: str,
    microbatches: str,
    rank: str,
    release: str,
    pending: str,
    zoom: str,
    stash: str,
    at: str,
) -> Scene:
    run = Run(schedule, int(ranks), int(microbatches))
    timeline = run.timeline
    here = min(int(rank), run.ranks - 1)
    found = kept(run, here, release, pending == "on")
    spans = {name(bar.span): bar.span for bar in found.bars if not bar.gradient}
    chosen = stash if stash in spans else ""
    seen = grid.window(timeline.makespan, int(zoom), int(at))
    most = max(2 * run.ranks + 1, found.lanes)
    pitch = min(MOST_LANE, LANES_HIGH / most)
    rank_words, step_words = _words(run, here, found), _step_words(run)
    marks: list[Mark] = [
        Text(LEFT, 16, step_words, "text", 13, bold=True, id="title"),
        *grid.legend(26),
        *grid.axis(seen, GRID, COUNT + COUNT_HIGH),
        *_rows(run, seen),
        *_ranks(run, here),
        Text(LEFT, STRIP - 14, f"Rank {here}, enlarged", "text", 13, bold=True, id="title-strip"),
        *_strip(run, here, seen, spans, chosen),
        *(_highlight(run, here, seen, spans[chosen]) if chosen else ()),
        Text(
            LEFT,
            LANES - 14,
            f"What rank {here} keeps, one bar each",
            "text",
            13,
            bold=True,
            id="title-lanes",
        ),
        *lane_marks(found, seen, LANES, pitch, chosen),
        *count_marks(found, seen, COUNT, COUNT_HIGH, most),
        *_buttons(found, seen, chosen),
    ]
    status = (
        f"{rank_words} {_stash_words(spans[chosen], timeline.end[here])}".strip()
        if (chosen)
        else rank_words
    )
    return Scene(
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(marks),
        alt=f"{run.ranks} ranks against time. {step_words}. Below, a bar for each stash of one "
        f"rank, packed into {sum(found.peak)} lanes. {status}",
        status=status,
        table=_table(spans, timeline.start[here], timeline.end[here]),
        resolved={
            knob: now
            for knob, asked, now in (("rank", rank, str(here)), ("stash", stash, chosen))
            if asked != now
        },
    )


def _step_words(run: Run) -> str:
    timeline = run.timeline
    return (
        f"{run.title}: {timeline.makespan:g} units long, up to {timeline.bubble:g} of them idle "
        f"({100 * timeline.bubble_fraction:.1f} %)"
    )


def _words(run: Run, rank: int, found: Kept) -> str:
    total = sum(found.peak)
    first, second = found.peak
    split = f" ({first} of chunk 0, {second} of chunk 1)" if second else ""
    gradients = (
        f" Up to {found.most_gradients} output gradients wait for their weight gradients."
        if found.most_gradients
        else ""
    )
    plural = "" if total == 1 else "es"
    return (
        f"Rank {rank} of {run.ranks} keeps at most {total} stash{plural}{split}, "
        f"first at time {found.time:g}.{gradients}"
    )


def _stash_words(span: Span, end: tuple[float, ...]) -> str:
    return (
        f"Microbatch {span.microbatch}, chunk {span.chunk}: forward at {span.start:g}, backward "
        f"done at {end[span.backward]:g}, weight gradient at {end[span.weight]:g}."
    )


def _table(spans: dict[str, Span], start: tuple[float, ...], end: tuple[float, ...]) -> Table:
    """The bars of the lanes; the grid is the same times, rank by rank."""
    return Table(
        ("stash", "forward", "backward or input gradient", "weight gradient done", "kept for"),
        tuple(
            [
                (
                    f"microbatch {span.microbatch}, chunk {span.chunk}",
                    f"{span.start:g} to {end[span.forward]:g}",
                    f"{start[span.backward]:g} to {end[span.backward]:g}",
                    f"{end[span.weight]:g}",
                    f"{span.end - span.start:g}",
                )
                for span in spans.values()
            ]
        ),
    )


FIGURES = {
    "schedule": Figure(
        name="schedule",
        title="A schedule, and what a rank keeps while it runs",
        knobs=(
            Choice("schedule", "Schedule", grid.SCHEDULES, "dualpipev"),
            Powers("ranks", "Ranks", 2, 16, "8"),
            Choice(
                "microbatches",
                "Microbatches",
                tuple((str(count), str(count)) for count in MICROBATCHES),
                "20",
            ),
            Choice("rank", "Rank", tuple((str(rank), str(rank)) for rank in range(16)), "0"),
            Choice(
                "release",
                "A stash is kept until",
                tuple(RELEASES.items()),
                "W",
                hint="A weight gradient reads the saved inputs, so they stay until it is done. "
                "Freeing them at the input gradient is the optimist's count.",
            ),
            Switch(
                "pending",
                "Output gradients too",
                hint="A split backward also holds the gradient of a chunk's output until the "
                "weight gradient is done, as PyTorch's does.",
            ),
            Powers("zoom", "Zoom", 1, 16, "1"),
            Hidden(
                "stash",
                "Selected stash (chunk.microbatch)",
                ("", "0.3", "1.0"),
                pattern=r"\d\.\d{1,2}",
            ),
            Hidden("at", "From time", ("0", "40"), "0", pattern=r"\d{1,4}"),
        ),
        draw=_draw,
        caption="One unit of time: a forward, an input gradient or a weight gradient of one chunk; "
        "a whole backward takes two, one overlapped with a forward three. Communication takes "
        "none. Interleaved 1F1B has two chunks a rank. Zoom in for microbatch numbers, and to "
        "click on single pieces of work.",
    )
}
