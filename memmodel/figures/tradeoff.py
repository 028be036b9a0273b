"""Chapter 4: every policy of a block at once, and the few that no other one beats."""

from __future__ import annotations

from itertools import pairwise

from memmodel.figures.diagram import WIDTH
from memmodel.figures.gauges import (
    GIB,
    MARGIN,
    RANK_TOKENS,
    fitted,
    gib_text,
    percent_text,
    wrapped,
)
from memmodel.figures.marking import graph, setting
from memmodel.formats import RECIPES, number_text
from memmodel.frontiers import Frontier, Point, frontier
from memmodel.recompute import POLICIES
from memmodel.scene import (
    Choice,
    Figure,
    Group,
    Hidden,
    Line,
    Mark,
    Path,
    Rect,
    Scene,
    Switch,
    Table,
    Text,
    text_box,
)

LEFT, RIGHT, TOP, BOTTOM = 74.0, 352.0, 44.0, 372.0  # of the plot: 0 and 100 %, 120 and 0 GiB
MOST_GIB = 120
LIST, LIST_END, ROW = 376.0, WIDTH - 8, 24.0
MOST_STEPS = 14
HEIGHT = 518.0
PILL = 16.0
BUDGETS = ("100", "80", "60", "50", "40", "30")
# Where the name of a preset stands: (right of its point, below it, anchor).
_LABELS = {
    "none": (20, 4, "start"),
    "dsv3": (22, -6, "start"),
    "selective": (2, -10, "start"),
    "attn-replay": (-4, -26, "start"),
    "full": (-2, -12, "end"),
}


def x_of(share: float) -> float:
    """Where a share of the forward stands on the axis."""
    return LEFT + (RIGHT - LEFT) * share


def y_of(nbytes: int) -> float:
    """Where bytes per token stand on the axis of an interior rank's GiB."""
    return BOTTOM - (BOTTOM - TOP) * nbytes * RANK_TOKENS / GIB / MOST_GIB


def _draw(recipe: str, communication: str, budget: str, selected: str) -> Scene:
    found = frontier(graph("moe"), RECIPES[recipe], replay_communication=communication == "on")
    corners = found.corners
    place = int(selected) if selected and int(selected) <= len(corners) else 0
    drawn: list[Mark] = [*_axes()]
    front = _path(found, found.front)
    stairs = [(x, y) for (_, y), (x, _) in pairwise(front)]  # no policy lies between two of them
    steps = [point for pair in zip(front, stairs, strict=False) for point in pair]
    drawn.append(Path((*steps, front[-1]), "ghost", id="front"))
    drawn.append(Path(_path(found, corners), "activations", weight=2.0, id="hull"))
    answer, words = None, ""
    if budget != "off":
        drawn += _limit(int(budget))
        answer, words = _cheapest(found, int(budget))
    # Numbers of steps stand above the marks of single policies: their plates keep them readable.
    drawn += [
        _diamond(found, found.presets[name].point, "text", f"preset-{name}")
        for name in POLICIES
        if not found.presets[name].on_hull
    ]
    if answer is not None:
        drawn.append(_diamond(found, answer, "limit", "answer"))
    drawn += _pills(found, place)
    drawn += _names(found)
    drawn += _steps(found, place)
    shown = corners[place - 1] if place else None
    told = (
        f"Step {place} replays {', '.join(found.names(shown)) or 'nothing'}."
        if shown
        else "Choose a step to read what it replays."
    )
    for first, role, sentence in ((0, "text", told), (2, "limit", words)):
        drawn += [
            Text(
                MARGIN,
                BOTTOM + 68 + 20 * (first + row),
                line,
                role,
                13,
                id=f"value-line-{first + row}",
            )
            for row, line in enumerate(wrapped(sentence))
        ]
    verdicts = "; ".join(f"{name} {_verdict(found, name)}" for name in POLICIES)
    policies = (
        f"{found.num_policies:,} policies, {len(found.front)} on the front, {len(corners)} steps."
    )
    step = f"{told} It keeps {_costs(found, shown)}." if shown else ""
    status = " ".join(filter(None, (words, step))) or policies
    return Scene(
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(drawn),
        alt=(
            f"Kept bytes against replayed share of the forward for {found.num_policies:,} policies "
            f"of a MoE block. The hull has {len(corners)} steps: the first keeps "
            f"{_costs(found, corners[0])}, the last keeps {_costs(found, corners[-1])}. "
            f"Presets: {verdicts}."
        ),
        status=status,
        table=_table(found),
        resolved={"selected": str(place) if place else ""},
    )


def _axes() -> list[Mark]:
    left = LEFT - 20  # room for the marks of policies that replay nothing
    marks: list[Mark] = [Text(MARGIN, 18, "kept on an interior rank, GiB", "muted", 12)]
    for gib in range(0, MOST_GIB + 1, 20):
        y = BOTTOM - (BOTTOM - TOP) * gib / MOST_GIB
        marks.append(Line(left, y, RIGHT + 12, y, "grid"))
        marks.append(Text(left - 8, y + 4, f"{gib}", "muted", 12, "end", id=f"tick-y-{gib}"))
    for share in range(0, 101, 20):
        x = x_of(share / 100)
        marks.append(Line(x, BOTTOM, x, BOTTOM + 5, "axis"))
        marks.append(Text(x, BOTTOM + 19, f"{share}", "muted", 12, "middle", id=f"tick-x-{share}"))
    marks.append(Line(left, BOTTOM, RIGHT + 12, BOTTOM, "axis"))
    marks.append(Text(RIGHT + 12, BOTTOM + 38, "% of forward FLOPs replayed", "muted", 12, "end"))
    return marks


def _path(found: Frontier, points: tuple[Point, ...]) -> tuple[tuple[float, float], ...]:
    return tuple((x_of(found.replay_fraction(p)), y_of(p.bytes_per_token)) for p in points)


def _pills(found: Frontier, place: int) -> list[Mark]:
    """The numbers of the steps on their corners; corners that touch share one mark."""
    clusters: list[list[int]] = []
    spots = _path(found, found.corners)
    for at, (x, y) in enumerate(spots):
        first = spots[clusters[-1][0]] if clusters else (0.0, 0.0)
        if clusters and abs(x - first[0]) < 34 and abs(y - first[1]) < PILL + 2:
            clusters[-1].append(at)
        else:
            clusters.append([at])
    marks: list[Mark] = []
    for cluster in clusters:
        x, y = spots[cluster[0]]
        words = str(cluster[0] + 1)
        if len(cluster) > 1:
            words += f"–{cluster[-1] + 1}"
        wide = PILL if len(words) == 1 else 12 + 8.0 * len(words)
        chosen = place - 1 in cluster
        box = (x - wide / 2, y - PILL / 2, wide, PILL)
        marks.append(Rect(*box, "ground"))
        marks.append(Rect(*box, "focus" if chosen else "activations", radius=8))
        marks.append(Text(x, y + 4.3, words, "ground", 12, "middle", id=f"value-pill-{words}"))
    return marks


def _names(found: Frontier) -> list[Mark]:
    """The names of the presets, on plates, so that lines may pass behind them."""
    marks: list[Mark] = []
    for name in POLICIES:
        ((x, y),) = _path(found, (found.presets[name].point,))
        right, down, anchor = _LABELS[name]
        label = Text(x + right, y + down, name, "text", 12, anchor, id=f"value-{name}")
        left, top, end, bottom = text_box(label)
        marks += [Rect(left - 1, top, end - left + 2, bottom - top, "ground"), label]
    return marks


def _diamond(found: Frontier, point: Point, role: str, name: str) -> Path:
    ((x, y),) = _path(found, (point,))
    return Path(((x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)), role, closed=True, id=name)


def _limit(gib: int) -> list[Mark]:
    y = BOTTOM - (BOTTOM - TOP) * gib / MOST_GIB
    return [Line(LEFT - 20, y, RIGHT + 12, y, "limit", dash=True, weight=1.5, id="budget-line")]


def _cheapest(found: Frontier, gib: int) -> tuple[Point | None, str]:
    """The policy of least replay under a budget for the rank, and a sentence about it."""
    try:
        answer = found.cheapest(gib * GIB // RANK_TOKENS)
    except ValueError:
        least = gib_text(found.front[-1].bytes_per_token * RANK_TOKENS)
        return None, f"No policy keeps at most {gib} GiB: the least is {least}."
    ops = ", ".join(found.names(answer)) or "nothing"
    share = percent_text(answer.replay_flops, found.forward_flops)
    return answer, f"At most {gib} GiB: replay {share}, {ops}."


def _steps(found: Frontier, place: int) -> list[Mark]:
    """The corners as a list of buttons, each with what it adds to the one before.

    A click also loads the marks of the step into the block's diagram, where that is linked.
    """
    marks: list[Mark] = [
        Text(LIST + 26, 18, "step: replay also", "muted", 12),
        Text(LIST_END - 70, 18, "GiB", "muted", 12, "end"),
        Text(LIST_END - 8, 18, "replay %", "muted", 12, "end"),
    ]
    before: set[str] = set()
    for at, point in enumerate(found.corners):
        names = found.names(point)
        top, chosen = 26 + at * ROW, at + 1 == place
        words = _change(before, names) if at or names else "save everything"
        before = set(names)
        gib = f"{point.bytes_per_token * RANK_TOKENS / GIB:.2f}"
        share = f"{100 * found.replay_fraction(point):.2f}"
        row = (LIST, top, LIST_END - LIST, ROW)
        marks.append(
            Group(
                id=f"step-{at + 1}",
                marks=(
                    Rect(*row, "focus", radius=4, faint=True)
                    if chosen
                    else Rect(*row, "ground", radius=4),
                    Text(LIST + 18, top + 16.5, f"{at + 1}", "text", 13, "end"),
                    Text(LIST + 26, top + 16.5, fitted(words, 13, 136), "text", 13),
                    Text(LIST_END - 70, top + 16.5, gib, "text", 13, "end"),
                    Text(LIST_END - 8, top + 16.5, share, "text", 13, "end"),
                ),
                knob="selected",
                value="" if chosen else str(at + 1),
                label=f"Step {at + 1}: {words}, {gib} GiB, {share} %",
                pressed=chosen,
                into="" if chosen else "recompute-diagram",
                loads=(("kind", "moe"), *setting("moe", frozenset(names))),
            )
        )
    return marks


def _change(before: set[str], names: tuple[str, ...]) -> str:
    """What a policy replays that the one before did not, and the other way round."""
    more = ", ".join(name for name in names if name not in before)
    less = ", ".join(name for name in sorted(before) if name not in names)
    return f"+ {more}" + (f", not {less}" if less else "")


def _costs(found: Frontier, point: Point) -> str:
    share = percent_text(point.replay_flops, found.forward_flops)
    return f"{gib_text(point.bytes_per_token * RANK_TOKENS)} and replays {share}"


def _verdict(found: Frontier, name: str) -> str:
    verdict = found.presets[name]
    if verdict.on_hull:
        return "on the hull"
    if verdict.on_front:
        return "on the front"
    return "dominated" if verdict.dominated else "replays communication"


def _table(found: Frontier) -> Table:
    rows = [
        (
            str(at + 1),
            ", ".join(found.names(point)) or "nothing",
            number_text(point.bytes_per_token),
            percent_text(point.replay_flops, found.forward_flops),
        )
        for at, point in enumerate(found.corners)
    ]
    for name in POLICIES:
        point = found.presets[name].point
        rows.append(
            (
                name,
                _verdict(found, name),
                number_text(point.bytes_per_token),
                percent_text(point.replay_flops, found.forward_flops),
            )
        )
    return Table(("step or preset", "replays", "bytes per token", "of forward"), tuple(rows))


FIGURES = {
    "frontier": Figure(
        name="frontier",
        title="Every policy at once",
        knobs=(
            Choice("recipe", "Recipe", tuple((name, name) for name in RECIPES), "bf16"),
            Choice(
                "budget",
                "Keep at most",
                (("off", "no limit"), *((gib, f"{gib} GiB") for gib in BUDGETS)),
                "off",
                hint="The policy of least replay among all that keep at most so much.",
            ),
            Switch("communication", "Allow replaying the all-to-alls"),
            Hidden("selected", "Step", ("", *(str(n + 1) for n in range(MOST_STEPS)))),
        ),
        draw=_draw,
        caption="One MoE block, all policies priced exactly; 17 stashes of 4 layers at 4,096 "
        "tokens. Thin: the policies that no other one beats. Thick: its convex hull, in numbered "
        "steps. Diamonds: presets off the hull.",
    ),
}
