"""The tables behind the block's diagrams: one row for each box, with what is drawn in and below it.

Sizes stand in the drawn unit, as the picture says them, and in bytes, which add up to the sum. The
last row is what the picture says of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from memmodel.figures.diagram import Box
from memmodel.figures.gauges import SEQ_LEN, Words, sized
from memmodel.figures.marking import Tensor, box_flops, half_of, is_fast
from memmodel.formats import number_text
from memmodel.graph import Op
from memmodel.recompute import Stash
from memmodel.scene import Table

Tensors = Mapping[Box, Tensor | None]

SIZES = {"token": "size for a token", "rank": "size on a rank"}
_STATES = {
    "kept": "kept",
    "anchor": "kept for a replay only",
    "passing": "not kept",
    "replayed": "replayed",
}


def saved_table(
    kept: Stash, tensors: Tensors, flips: Mapping[str, int], scale: str, words: Words
) -> Table:
    """What is saved and what is replayed; `flips` are the bytes that a flip of a mark adds."""
    rows = []
    pointless = kept.pointless
    for box, tensor in tensors.items():
        if box.op == "x2":
            continue
        size, statistic = _drawn(tensor)
        change = ""
        if box.op in flips and box.half != "shared":  # the halves flip together
            change = f"{flips[box.op]:+,}" if flips[box.op] else "0"
        rows.append(
            (
                _name(box),
                _state(tensor) + (", pointless" if box.op in pointless else ""),
                size,
                statistic,
                number_text(_bytes(kept, box)),
                change,
                *_flops(kept, box),
            )
        )
    rows.append(
        (
            "sum",
            "",
            sized(kept.bytes_per_token, scale),
            "",
            number_text(kept.bytes_per_token),
            "",
            number_text(kept.forward_flops(SEQ_LEN)),
            number_text(kept.replay_flops(SEQ_LEN)),
        )
    )
    rows.append(("the rank", "", words.kept, "", "", "", words.forward, words.replayed))
    return Table(
        (
            "operation",
            "output",
            SIZES[scale],
            "statistic",
            "bytes kept per token",
            "a flip adds",
            "FLOPs per token",
            "replayed",
        ),
        tuple(rows),
    )


def stored_table(
    kept: Stash, before: Stash, tensors: Tensors, chips: Mapping[Box, str], scale: str, words: Words
) -> Table:
    """What is kept in which format; `chips` are the formats that the boxes name."""
    rows = []
    for box, tensor in tensors.items():
        if box.op == "x2":
            continue
        op = kept.block.by_name[box.op]
        is_kept = op.name in kept.tensors and tensor is not None
        size, statistic = _drawn(tensor)
        rows.append(
            (
                _name(box),
                chips[box],
                _state(tensor),
                kept.recipe.at(op.stored).name if is_kept else "",
                size,
                statistic,
                number_text(_bytes(kept, box)),
                number_text(_bytes(before, box)),
                "yes" if is_kept and op.name in kept.dual else "",
                *_flops(kept, box),
            )
        )
    rows.append(
        (
            "sum",
            "",
            "",
            "",
            sized(kept.bytes_per_token, scale),
            "",
            number_text(kept.bytes_per_token),
            number_text(before.bytes_per_token),
            "",
            number_text(int(kept.forward_cost(SEQ_LEN))),
            number_text(int(kept.replay_cost(SEQ_LEN))),  # whole: GEMMs have even FLOPs
        )
    )
    rows.append(("the rank", "", "", "", words.kept, "", "", "", "", words.forward, words.replayed))
    return Table(
        (
            "operation",
            "format",
            "output",
            "stored in",
            SIZES[scale],
            "statistic",
            "bytes kept per token",
            "in bf16",
            "both orientations",
            "FLOPs per token, fp8 halved",
            "replayed",
        ),
        tuple(rows),
    )


def _name(box: Box) -> str:
    return f"{box.op}, {box.half}" if box.half else box.op


def _state(tensor: Tensor | None) -> str:
    return _STATES[tensor.state] if tensor else "never kept"


def _drawn(tensor: Tensor | None) -> tuple[str, str]:
    """The size and the statistic as the picture says them."""
    if tensor is None:
        return "", ""
    return ("" if tensor.state == "passing" else tensor.words), tensor.statistic


def _bytes(kept: Stash, box: Box) -> int:
    """Bytes per token that a box keeps, its statistic included."""
    op: Op = kept.block.by_name[box.op]
    whole = kept.tensors.get(op.name, 0) + (kept.tensors.get(op.aux[0], 0) if op.aux else 0)
    return half_of(op, box.half, whole)


def _flops(kept: Stash, box: Box) -> tuple[str, str]:
    """FLOPs per token of a box, and those of its replay."""
    op = kept.block.by_name[box.op]
    flops = box_flops(kept.block.kind, op.name, box.half, is_fast(op, kept.recipe))
    return number_text(flops), number_text(flops if op.name in kept.replayed else 0)
