"""One block as a drawn graph: where every operation, wire and tensor stands.

The rules: an operation is a box on the spine of its column, forward runs downwards, and both
columns share their rows. Wires that skip operations run on rails outside of the boxes. A fork has
a dot, an arrowhead stands only at a destination. A tensor is a slab on the wire below its
operation, as wide as its bytes. Nothing moves with a state: a tensor or a bar that is not there
leaves its room empty.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from memmodel.scene import Line, Mark, Path, Rect, Text, text_width

WIDTH = 680.0
LANE, LOW, TALL = 140.0, 24.0, 40.0  # of a box; a tall one has room for bars
UNDER = 46.0  # from a box to the next: text, slab, arrow
SLAB, SLAB_AT, FORK_AT = 8.0, 20.0, 33.0  # below the box
SPINE, SPINE_Q, SPINE_KV = 168.0, 92.0, 244.0  # of the attention column
SPINE_SHARED, SPINE_ROUTED = 424.0, 586.0  # of the FFN column
RAIL_RESIDUAL, RAIL_UP, RAIL_BYPASS, RAIL_ROUTER = 10.0, 334.0, 505.0, 668.0
UNITS_PER_KIB = 1.15  # width of a slab
MFLOP_PER_BAR, BAR_PITCH, BAR_WIDTH, BAR_HIGH = 10, 2.6, 1.7, 8.0

# Both columns, row by row: (attention, FFN). The height of a row is that of its taller box.
_ROWS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("x0",), ()),
    (("norm1",), ("norm2",)),
    (("qkv_down",), ("router",)),
    (("q_norm", "kv_norm"), ("dispatch",)),
    (("q_up", "kv_up"), ("gate_up",)),
    (("rope_q", "rope_kv"), ("swiglu",)),
    (("attn",), ("ffn_down",)),
    (("o_proj",), ("combine",)),
    (("x1",), ("moe_add",)),
    ((), ("x2",)),
)
GEMMS = ("qkv_down", "q_up", "kv_up", "attn", "o_proj", "router", "gate_up", "ffn_down")
ATTENTION = tuple(op for left, _ in _ROWS for op in left if op != "x0")
_SPLIT = ("gate_up", "swiglu", "ffn_down")  # with a routed and a shared half in a MoE block
_MOE_ONLY = ("router", "dispatch", "combine", "moe_add")
_NOTES = {
    "x0": "block input",
    "x1": "add",
    "x2": "block output",
    "dispatch": "a2a",
    "combine": "a2a",
    "moe_add": "add",
}
_TOP = 40.0


class Box(NamedTuple):
    """The place of an operation: the middle of its upper side, and its size."""

    op: str
    half: str  # "", "routed" or "shared"
    x: float
    y: float
    high: float
    wide: float = LANE

    @property
    def left(self) -> float:
        return self.x - self.wide / 2

    @property
    def right(self) -> float:
        return self.x + self.wide / 2

    @property
    def bottom(self) -> float:
        return self.y + self.high

    @property
    def middle(self) -> float:
        return self.y + self.high / 2


@lru_cache(maxsize=4)
def boxes(kind: str) -> tuple[Box, ...]:
    """Every box of a block of `kind`, in forward order of the columns; halves stand together."""
    left: list[Box] = []
    right: list[Box] = []
    y = _TOP
    for attention, ffn in _ROWS:
        tall = any(op in GEMMS for op in attention + ffn)
        for op in attention:
            x = SPINE_Q if op in ("q_norm", "q_up", "rope_q") else SPINE
            x = SPINE_KV if op in ("kv_norm", "kv_up", "rope_kv") else x
            left.append(Box(op, "", x, y, TALL if op in GEMMS else LOW))
        for op in ffn:
            if kind == "dense" and op in _MOE_ONLY:
                continue
            high = TALL if op in GEMMS else LOW
            if kind == "dense" or op not in _SPLIT:
                # 53 bars are a little wider than a lane.
                wide = LANE + 16 if op == "gate_up" else LANE
                right.append(Box(op, "", SPINE_ROUTED, y, high, wide))
            else:
                right.append(Box(op, "routed", SPINE_ROUTED, y, high))
                right.append(Box(op, "shared", SPINE_SHARED, y, high))
        y += (TALL if tall else LOW) + UNDER
    return (*left, *right)


BOTTOM = boxes("moe")[-1].bottom  # of the diagram


@lru_cache(maxsize=4)
def wires(kind: str) -> tuple[Mark, ...]:
    """Every wire and fork, and what the lanes are called."""
    at = {(box.op, box.half): box for box in boxes(kind)}

    def box(op: str, half: str = "") -> Box:
        return at[op, half]

    marks: list[Mark] = []

    def wire(*points: tuple[float, float]) -> None:
        marks.append(Path(points, "axis", arrow=True, weight=1.5))

    def straight(*ops: Box) -> None:
        for above, below in pairwise(ops):
            wire((above.x, above.bottom), (below.x, below.y))

    def fork(source: Box) -> float:
        y = source.bottom + FORK_AT
        marks.append(dot(source.x, y))
        return y

    x0, x1, x2, norm2 = box("x0"), box("x1"), box("x2"), box("norm2")
    down, attn = box("qkv_down"), box("attn")
    straight(x0, box("norm1"), down)
    straight(attn, box("o_proj"), x1)
    y = fork(x0)
    wire((x0.x, y), (RAIL_RESIDUAL, y), (RAIL_RESIDUAL, x1.middle), (x1.left, x1.middle))
    y = fork(down)
    marks.append(Line(down.x, down.bottom, down.x, y, "axis", weight=1.5))
    for names, port in ((("q_norm", "q_up", "rope_q"), -30), (("kv_norm", "kv_up", "rope_kv"), 30)):
        lane = [box(name) for name in names]
        wire((down.x, y), (lane[0].x, y), (lane[0].x, lane[0].y))
        straight(*lane)
        last, join = lane[-1], lane[-1].bottom + FORK_AT
        wire((last.x, last.bottom), (last.x, join), (attn.x + port, join), (attn.x + port, attn.y))
    # the residual leaves the column below, and forks in the gutter: up to the FFN, on to the end
    wire((x1.x, x1.bottom), (x1.x, x2.middle), (x2.left, x2.middle))
    marks.append(dot(RAIL_UP, x2.middle))
    wire((RAIL_UP, x2.middle), (RAIL_UP, norm2.y - 16), (norm2.x, norm2.y - 16), (norm2.x, norm2.y))
    if kind == "dense":
        straight(norm2, box("gate_up"), box("swiglu"), box("ffn_down"), x2)
        return tuple(marks)
    router, dispatch, combine, add = (box(op) for op in _MOE_ONLY)
    routed, shared = ([box(op, half) for op in _SPLIT] for half in ("routed", "shared"))
    straight(norm2, router, dispatch, *routed, combine, add, x2)
    straight(*shared)
    y = fork(norm2)
    wire((norm2.x, y), (SPINE_SHARED, y), (SPINE_SHARED, shared[0].y))
    marks.append(dot(RAIL_BYPASS, y))
    wire((RAIL_BYPASS, y), (RAIL_BYPASS, dispatch.middle), (dispatch.left, dispatch.middle))
    y = fork(router)
    wire(
        (router.x, y),
        (RAIL_ROUTER, y),
        (RAIL_ROUTER, combine.middle),
        (combine.right, combine.middle),
    )
    wire((SPINE_SHARED, shared[-1].bottom), (SPINE_SHARED, add.middle), (add.left, add.middle))
    baseline = dispatch.bottom + 14
    marks += [
        Text(SPINE_SHARED + 6, shared[-1].bottom + 14, "never kept", "muted", 12),
        Text(SPINE_SHARED - 6, baseline, "1 shared", "muted", 12, "end"),
        Text(SPINE_ROUTED - 6, baseline, "8 routed", "muted", 12, "end"),
    ]
    return tuple(marks)


def dot(x: float, y: float) -> Rect:
    """A fork."""
    return Rect(x - 3, y - 3, 6, 6, "axis", radius=3)


@lru_cache(maxsize=1024)
def comb(x: float, y: float, mflop: float, role: str) -> tuple[Mark, ...]:
    """FLOPs as upright bars of one fixed unit; the last is as high as what is left over.

    One closed path, since a block has up to 268 bars: each bar is four of its points.
    """
    points: list[tuple[float, float]] = []
    base, bars = y + BAR_HIGH, mflop / MFLOP_PER_BAR
    while bars > 0:
        top = base - BAR_HIGH * min(bars, 1.0)
        points += ((x, base), (x, top), (x + BAR_WIDTH, top), (x + BAR_WIDTH, base))
        x, bars = x + BAR_PITCH, bars - 1
    return (Path(tuple(points), role, closed=True),) if points else ()


@lru_cache(maxsize=1024)
def op_box(
    box: Box, *, replayed: bool | None, mflop: float, sign: str = "", chip: str = "", note: str = ""
) -> tuple[Mark, ...]:
    """The box of an operation: solid if saved, dashed if replayed, plain (None) without a mark.

    `sign` is "!" (pointless) or "±0" (neutral); `chip` names a format, with its colour.
    """
    place = (box.left, box.y, box.wide, box.high)
    role, outline = ("recompute", "dashed") if replayed else ("save", "solid")
    marks: list[Mark] = [Rect(*place, "ground", radius=5)]
    if replayed is None:
        role = "axis"
    elif not replayed:
        marks.append(Rect(*place, role, radius=5, faint=True))
    marks.append(Rect(*place, role, filled=False, outline=outline, radius=5))
    tall = box.high > LOW
    baseline = box.y + (14.5 if tall else 16.5)
    words = "recompute" if replayed else "text"
    marks.append(Text(box.left + 8, baseline, box.op, words, 13))
    note = note or _NOTES.get(box.op, "")
    if note:
        after = box.left + 14 + text_width(box.op, 13)
        place_of_note = (after, "start") if replayed is not None else (box.right - 8, "end")
        ink = "text" if replayed is False else "muted"
        marks.append(Text(place_of_note[0], baseline, note, ink, 12, place_of_note[1]))
    if tall:
        x = box.left + 8
        marks += comb(x, box.y + 20, mflop, "text")
        marks += comb(x, box.y + 30, mflop if replayed else 0.0, "recompute")
    if sign or chip:
        marks += badge(box.right - 5, baseline - 12.5, sign or chip)
    return tuple(marks)


def badge(right: float, top: float, words: str) -> tuple[Mark, ...]:
    """A sign or the name of a format, right-aligned."""
    wide = 16.0 if words == "!" else 26.0 if words == "±0" else text_width(words, 12) + 10
    place = (right - wide, top, wide, 16.0)
    if words == "±0":
        marks: tuple[Mark, ...] = (
            Rect(*place, "ground", radius=8),
            Rect(*place, "neutral", filled=False, outline="solid", radius=8),
        )
        ink = "neutral"
    else:
        marks, ink = (Rect(*place, "warning" if words == "!" else words, radius=8),), "ground"
    return (*marks, Text(right - wide / 2, top + 12.2, words, ink, 12, "middle", bold=words == "!"))


@lru_cache(maxsize=2048)
def slab(
    box: Box,
    *,
    state: str,
    nbytes: int,
    text: str,
    aux: str = "",
    role: str = "activations",
    before: int = 0,
    dual: bool = False,
) -> tuple[Mark, ...]:
    """The tensor below a box, in one of four states.

    "kept" is filled, "anchor" (kept for a replay alone) hatched, "replayed" a dashed outline,
    "passing" (saved, but no one needs it) is not drawn. `before` bytes are a dashed outline around
    it, `dual` hatches the second orientation; `aux` is the statistic kept beside it.
    """
    top = box.bottom + SLAB_AT
    marks: list[Mark] = []

    def bar(size: float, **style: bool | str) -> None:
        wide = max(size * UNITS_PER_KIB / 1024, 2.0)
        marks.append(Rect(box.x - wide / 2, top, wide, SLAB, **style))  # type: ignore[arg-type]

    if state == "replayed":
        bar(nbytes, role="ground")
        name = f"replayed-{box.op}{box.half}"
        bar(nbytes, role="recompute", filled=False, outline="dashed", id=name)
    elif state != "passing":
        if before:
            bar(before, role="ground")
        bar(nbytes, role=role, hatch=state == "anchor", id=f"slab-{box.op}{box.half}")
        if dual:
            wide = nbytes * UNITS_PER_KIB / 1024 / 2
            marks.append(Rect(box.x, top, wide, SLAB, role, hatch=True))
        if before:
            name = f"before-{box.op}{box.half}"
            bar(before, role="ghost", filled=False, outline="dashed", id=name)
    baseline = box.bottom + 14
    ink = {"replayed": "recompute", "passing": "muted"}.get(state, "text")
    marks.append(Text(box.x + 6, baseline, text, ink, 12, id=f"value-{box.op}{box.half}"))
    if aux:
        marks.append(Text(box.x - 6, baseline, aux, "muted", 12, "end", id=f"value-aux-{box.op}"))
    return tuple(marks)
