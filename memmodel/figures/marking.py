"""Marks as text, and what one box of the block's diagram shows in a state: shared by its faces."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from memmodel.configs import load
from memmodel.figures.diagram import Box
from memmodel.figures.gauges import SEQ_LEN, sized
from memmodel.formats import FORMATS, Recipe, recipe
from memmodel.graph import Block, Op
from memmodel.graph import block as block_graph
from memmodel.recompute import POLICIES, Marks, Stash, marks, tensor_bytes

BF16 = recipe("bf16")
CUSTOM = "custom"


@lru_cache(maxsize=4)
def graph(kind: str) -> Block:
    """The block of DeepSeek-V3."""
    return block_graph(load("deepseek-v3"), kind)


# A policy as text: one character for each of these operations, 1 where it is replayed.
MARKED = graph("moe").markable


def marks_text(replayed: Marks) -> str:
    """Marks as text, in the order of MARKED."""
    return "".join("1" if op in replayed else "0" for op in MARKED)


def marks_of(text: str) -> Marks:
    """The replayed operations of a text.

    >>> sorted(marks_of("1" + "0" * 17 + "1"))
    ['moe_add', 'norm1']
    """
    return frozenset(op for op, mark in zip(MARKED, text, strict=True) if mark == "1")


PRESETS: dict[str, Marks] = {name: marks([graph("moe")], name)["moe"] for name in POLICIES}


@lru_cache(maxsize=4)
def _names(kind: str) -> dict[Marks, str]:
    """The presets by their marks that the block of `kind` shows; of equal ones the first."""
    shown = frozenset(graph(kind).markable)
    return {preset & shown: name for name, preset in reversed(PRESETS.items())}


def recognise(kind: str, replayed: Marks) -> str:
    """The preset that agrees with every mark that the block of `kind` shows, or "custom"."""
    return _names(kind).get(replayed.intersection(graph(kind).markable), CUSTOM)


def replayed_by(policy: str, text: str) -> Marks:
    """The replayed operations in force; nothing edited yet is DeepSeek's policy."""
    if policy == CUSTOM:
        return marks_of(text) if text else PRESETS["dsv3"]
    return PRESETS[policy]


def setting(kind: str, replayed: Marks) -> tuple[tuple[str, str], ...]:
    """The knobs that put these marks in force; a preset leaves the remembered ones alone."""
    name = recognise(kind, replayed)
    also = (("marks", marks_text(replayed)),) if name == CUSTOM else ()
    return (("policy", name), *also)


class Tensor(NamedTuple):
    """What is drawn below a box (see `diagram.slab`)."""

    state: str  # kept | anchor | replayed | passing
    nbytes: int  # per token, of this half
    words: str
    statistic: str


def tensor_below(kept: Stash, box: Box, scale: str) -> Tensor | None:
    """The output of a box; None where there is nothing to keep."""
    if box.op == "x2" or (box.half == "shared" and box.op == "ffn_down"):
        return None
    op = kept.block.by_name[box.op]
    state = tensor_state(kept, op)
    whole = kept.tensors.get(op.name) or full_size(kept.block.kind, op.name, kept.recipe)
    nbytes = half_of(op, box.half, whole)
    words = "not kept" if state == "passing" else sized(nbytes, scale)
    return Tensor(state, nbytes, words, statistic(kept, op, scale))


def tensor_state(kept: Stash, op: Op) -> str:
    """Whether the output of an operation is kept, and for what."""
    if op.name in kept.replayed:
        return "replayed"
    if op.name not in kept.tensors:
        return "passing"
    return "kept" if kept.block.readers[op.name] else "anchor"


@lru_cache(maxsize=512)
def full_size(kind: str, op: str, formats: Recipe) -> int:
    """Bytes per token of an operation's output in one orientation, whether kept or not."""
    return tensor_bytes(graph(kind).by_name[op], formats)


def half_of(op: Op, half: str, amount: int) -> int:
    """The routed or the shared share of a number that is proportional to the output's rows."""
    if not half or not op.elements:
        return amount
    row = 0 if half == "routed" else 1
    if len(op.rows) <= row:  # the shared expert's own output is never kept
        return 0
    count, width = op.rows[row]
    return amount * count * width // op.elements


@lru_cache(maxsize=128)
def box_flops(kind: str, op: str, half: str, fast: bool) -> int:
    """FLOPs per token of a box, an fp8 GEMM's counted half.

    The halves of ffn_down share as their inputs do.
    """
    found = graph(kind).by_name
    flops = found[op].forward_flops(SEQ_LEN) // (2 if fast else 1)  # a GEMM's are even
    return half_of(found["swiglu" if op == "ffn_down" else op], half, flops)


def is_fast(op: Op, formats: Recipe) -> bool:
    """Whether tensor cores run an operation on 8-bit inputs."""
    return op.kind == "matmul" and formats.at(op.name).fast


def statistic(kept: Stash, op: Op, scale: str) -> str:
    """The fp32 statistic kept beside an operation's output, in words."""
    if op.aux is None or op.name in kept.replayed:
        return ""
    name, elements = op.aux
    return f"{name.split()[0]} {sized(FORMATS['fp32'].nbytes(elements), scale)}"
