"""Saved for backward: what a policy keeps of a block, what it replays, at what cost.

A mark belongs to an operation. An op that is not saved is replayed exactly once in backward. A
tensor is kept if its op is saved and some op's backward reads it or some replayed op takes it as
an input: a local question, with no closure to chase.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType

from memmodel.formats import E4M3, FORMATS, Recipe
from memmodel.graph import Block, Op

Marks = frozenset[str]  # the ops that are replayed

_DSV3 = ("norm1", "norm2", "q_norm", "kv_norm", "q_up", "kv_up", "rope_q", "rope_kv", "swiglu")
# What each named policy replays, where the block has it; None is every op that carries a mark.
# dsv3: DeepSeek-V3 report 3.2.3 (norms, MLA up-projections) and 3.3.3 (SwiGLU); RoPE follows from
# the up-projections it sits on.
POLICIES: Mapping[str, tuple[str, ...] | None] = MappingProxyType(
    {
        "none": (),
        "dsv3": _DSV3,
        "selective": (*_DSV3, "gate_up"),
        "attn-replay": (
            "norm1",
            "qkv_down",
            "q_norm",
            "kv_norm",
            "q_up",
            "kv_up",
            "rope_q",
            "rope_kv",
            "attn",
            "o_proj",
            "x1",
            "swiglu",
        ),
        "full": None,
    }
)


def marks(
    blocks: Iterable[Block], policy: str, *, replay: Iterable[str] = (), save: Iterable[str] = ()
) -> dict[str, Marks]:
    """The replayed ops of each block, by kind: the policy, then the two lists that override it.

    Raises ValueError for an unknown policy, for an op that none of the blocks has, and for an op
    in both lists.
    """
    if policy not in POLICIES:
        raise ValueError(f"recompute {policy!r}: known are {', '.join(POLICIES)}")
    blocks, replay, save = tuple(blocks), tuple(replay), tuple(save)
    known = tuple(dict.fromkeys(name for block in blocks for name in block.markable))
    for field, names in (("replay", replay), ("save", save)):
        for name in names:
            if name not in known:
                raise ValueError(f"{field}: no op {name!r} to mark, known are {', '.join(known)}")
    for name in replay:
        if name in save:
            raise ValueError(f"{name} is in both replay and save")
    named = POLICIES[policy]
    return {
        block.kind: frozenset(
            name
            for name in block.markable
            if name in replay or (name not in save and (named is None or name in named))
        )
        for block in blocks
    }


@dataclass(frozen=True, eq=False)
class Stash:
    """What one token leaves behind in one block between its forward and its backward."""

    block: Block
    recipe: Recipe
    replayed: Marks
    dual_stash: bool
    tensors: Mapping[str, int]  # kept tensor or statistic -> bytes per token
    bytes_per_token: int
    dual: tuple[str, ...]  # the tensors kept in both orientations

    @cached_property
    def pointless(self) -> tuple[str, ...]:
        """Replayed ops whose output no backward reads and no replayed op takes as an input."""
        return tuple(
            name
            for name in self.block.markable
            if name in self.replayed and not _needed(self.block, name, self.replayed)
        )

    @cached_property
    def neutral(self) -> tuple[str, ...]:
        """Ops whose mark can be flipped, alone, without changing a kept byte."""
        return tuple(name for name in self.block.markable if not self.flip(name))

    def flip(self, name: str) -> int:
        """Bytes per token that flipping the mark of one op adds (negative: frees).

        Keeping is local: only what the op makes and what it takes can come or go.
        """
        op = self.block.by_name[name]
        around = (op, *(self.block.by_name[source] for source in op.inputs))

        def total(replayed: Marks) -> int:
            found = (_kept(o, self.block, self.recipe, replayed, self.dual_stash) for o in around)
            return sum(output + statistic for output, statistic, _ in found)

        return total(self.replayed ^ {name}) - total(self.replayed)

    @property
    def replayed_communication(self) -> tuple[str, ...]:
        """Replayed all-to-alls: their traffic is repeated."""
        return tuple(op.name for op in self._replayed_ops if op.kind == "comm")

    @property
    def _replayed_ops(self) -> tuple[Op, ...]:
        return tuple(op for op in self.block.ops if op.name in self.replayed)

    def forward_flops(self, seq_len: int) -> int:
        """bf16 FLOPs of one token's forward through the block."""
        return sum(op.forward_flops(seq_len) for op in self.block.ops)

    def replay_flops(self, seq_len: int) -> int:
        return sum(op.forward_flops(seq_len) for op in self._replayed_ops)

    def forward_cost(self, seq_len: int) -> int | float:
        """Forward FLOPs with every fp8 GEMM counted half."""
        return _cost(self.block.ops, self.recipe, seq_len)

    def replay_cost(self, seq_len: int) -> int | float:
        return _cost(self._replayed_ops, self.recipe, seq_len)


def _cost(ops: Iterable[Op], recipe: Recipe, seq_len: int) -> int | float:
    # Doubled, so that halves stay whole until the end.
    twice = sum(
        op.forward_flops(seq_len) * (1 if op.kind == "matmul" and recipe.at(op.name).fast else 2)
        for op in ops
    )
    return twice // 2 if twice % 2 == 0 else twice / 2


def _needed(block: Block, tensor: str, replayed: Marks) -> bool:
    """Whether a backward reads the tensor or a replayed op takes it as an input."""
    return bool(block.readers[tensor]) or any(op.name in replayed for op in block.consumers[tensor])


def _read_by_gemm(block: Block, tensor: str, replayed: Marks) -> bool:
    """Whether a GEMM or attention reads the tensor, in its backward or in its replay."""
    return any(op.has_gemm for op in block.readers[tensor]) or any(
        op.has_gemm and op.name in replayed for op in block.consumers[tensor]
    )


def transposable(op: Op, recipe: Recipe) -> bool:
    """Whether a dual stash keeps the op's output in both orientations once a GEMM reads it.

    e4m3 alone; mxfp8, e5m6 and the saved input of SwiGLU, which no GEMM reads, are exempt.
    """
    return recipe.at(op.stored) is E4M3 and op.stored != "swiglu_in"


def tensor_bytes(op: Op, recipe: Recipe) -> int:
    """Bytes per token of an op's output in one orientation, every quantised copy included."""
    fmt = recipe.at(op.stored)
    one = sum(count * fmt.nbytes(width) for count, width in op.rows)
    return one * recipe.copies(op.stored)


def _kept(
    op: Op, block: Block, recipe: Recipe, replayed: Marks, dual_stash: bool
) -> tuple[int, int, bool]:
    """Bytes per token of an op's output and of its statistic; whether in both orientations."""
    if op.name in replayed or op.name == "x2":
        return 0, 0, False
    statistic = FORMATS["fp32"].nbytes(op.aux[1]) if op.aux else 0
    if not _needed(block, op.name, replayed):
        return 0, statistic, False
    twice = dual_stash and transposable(op, recipe) and _read_by_gemm(block, op.name, replayed)
    return tensor_bytes(op, recipe) * (2 if twice else 1), statistic, twice


@lru_cache(maxsize=4096)
def stash(block: Block, recipe: Recipe, replayed: Marks, dual_stash: bool = False) -> Stash:
    """What a policy keeps of one block, in bytes per token.

    >>> from memmodel.configs import load
    >>> from memmodel.formats import recipe
    >>> from memmodel.graph import block
    >>> moe = block(load("deepseek-v3"), "moe")
    >>> replayed = marks([moe], "dsv3")["moe"]
    >>> stash(moe, recipe("bf16"), replayed).bytes_per_token
    256640
    """
    tensors: dict[str, int] = {}
    aux: dict[str, int] = {}
    dual: list[str] = []
    for op in block.ops:
        output, statistic, twice = _kept(op, block, recipe, replayed, dual_stash)
        if op.aux and statistic:
            aux[op.aux[0]] = statistic
        if output:
            tensors[op.name] = output
        if twice:
            dual.append(op.name)
    tensors |= aux
    return Stash(
        block,
        recipe,
        replayed,
        dual_stash,
        MappingProxyType(tensors),
        sum(tensors.values()),
        tuple(dual),
    )
