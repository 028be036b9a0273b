"""A second implementation of what a block keeps: it runs forward, replay and backward.

Written from the table of operations and the rules alone (what each backward reads, marks, formats,
dual stash), not from memmodel: no formula says which tensor is kept. A step is really executed on
symbolic values; whatever it had to fetch from what forward left behind is kept, and the step is
executed again with nothing but that, and must fail with any one thing less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache


class MissingError(LookupError):
    """A replay or a backward needs something that is neither stored nor replayed."""


@dataclass(frozen=True)
class Shape:
    """The dimensions of a block, those of DeepSeek-V3 unless given (its report, section 4.2)."""

    hidden: int = 7168
    heads: int = 128
    nope: int = 128
    rope: int = 64
    v: int = 128
    q_lora: int = 1536
    kv_lora: int = 512
    dense_width: int = 18432
    expert_width: int = 2048
    experts: int = 256
    top: int = 8
    shared: int = 1

    def config(self, dense_layers: int = 3, layers: int = 61) -> dict[str, object]:
        """The Hugging Face config that has these dimensions."""
        return {
            "model_type": "deepseek_v3",
            "hidden_size": self.hidden,
            "vocab_size": 1000,
            "num_hidden_layers": layers,
            "first_k_dense_replace": dense_layers,
            "num_attention_heads": self.heads,
            "qk_nope_head_dim": self.nope,
            "qk_rope_head_dim": self.rope,
            "v_head_dim": self.v,
            "q_lora_rank": self.q_lora,
            "kv_lora_rank": self.kv_lora,
            "intermediate_size": self.dense_width,
            "moe_intermediate_size": self.expert_width,
            "n_routed_experts": self.experts,
            "num_experts_per_tok": self.top,
            "n_shared_experts": self.shared,
        }


@dataclass(frozen=True)
class Row:
    """One line of the table of operations."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    out: tuple[tuple[int, int], ...]  # (how many, elements each) of the output, per token
    stored: str  # a site's format, or bf16 / fp32 always
    reads: tuple[str, ...]
    aux: tuple[str, int] | None = None  # name and bytes
    flops: int = 0
    flops_per_position: int = 0


@lru_cache(maxsize=16)
def table(kind: str, d: Shape) -> list[Row]:
    """The operations of a block in forward order."""
    h, heads, q_dim = d.hidden, d.heads, d.nope + d.rope
    rows = [
        Row("x0", "boundary", (), ((1, h),), "bf16", ()),
        Row("norm1", "norm", ("x0",), ((1, h),), "qkv_down", ("x0",), ("rstd norm1", 4), 8 * h),
        Row(
            "qkv_down",
            "matmul",
            ("norm1",),
            ((1, d.q_lora), (1, d.kv_lora)),
            "bf16",
            ("norm1",),
            flops=2 * h * d.q_lora + 2 * h * (d.kv_lora + d.rope),
        ),
        Row(
            "q_norm",
            "norm",
            ("qkv_down",),
            ((1, d.q_lora),),
            "q_up",
            ("qkv_down",),
            ("rstd q_norm", 4),
            8 * d.q_lora,
        ),
        Row(
            "kv_norm",
            "norm",
            ("qkv_down",),
            ((1, d.kv_lora),),
            "kv_up",
            ("qkv_down",),
            ("rstd kv_norm", 4),
            8 * d.kv_lora,
        ),
        Row(
            "q_up",
            "matmul",
            ("q_norm",),
            ((1, heads * q_dim),),
            "attn",
            ("q_norm",),
            flops=2 * d.q_lora * heads * q_dim,
        ),
        Row(
            "kv_up",
            "matmul",
            ("kv_norm",),
            ((1, heads * (q_dim + d.v)),),
            "attn",
            ("kv_norm",),
            flops=2 * d.kv_lora * heads * (d.nope + d.v),
        ),
        Row(
            "rope_q",
            "elementwise",
            ("q_up",),
            ((1, heads * q_dim),),
            "attn",
            (),
            flops=6 * heads * d.rope,
        ),
        Row(
            "rope_kv",
            "elementwise",
            ("kv_up",),
            ((1, heads * (q_dim + d.v)),),
            "attn",
            (),
            flops=6 * d.rope,
        ),
        Row(
            "attn",
            "attention",
            ("rope_q", "rope_kv"),
            ((1, heads * d.v),),
            "o_proj",
            ("rope_q", "rope_kv", "attn"),
            ("lse", 4 * heads),
            flops_per_position=2 * heads * (q_dim + d.v) // 2,
        ),
        Row("o_proj", "matmul", ("attn",), ((1, h),), "bf16", ("attn",), flops=2 * heads * d.v * h),
        Row("x1", "add", ("o_proj", "x0"), ((1, h),), "bf16", ()),
        Row("norm2", "norm", ("x1",), ((1, h),), "gate_up", ("x1",), ("rstd norm2", 4), 8 * h),
    ]
    if kind == "dense":
        w = d.dense_width
        return [
            *rows,
            Row(
                "gate_up",
                "matmul",
                ("norm2",),
                ((1, 2 * w),),
                "swiglu_in",
                ("norm2",),
                flops=2 * h * 2 * w,
            ),
            Row(
                "swiglu",
                "elementwise",
                ("gate_up",),
                ((1, w),),
                "ffn_down",
                ("gate_up",),
                flops=6 * w,
            ),
            Row("ffn_down", "matmul", ("swiglu",), ((1, h),), "bf16", ("swiglu",), flops=2 * w * h),
            Row("x2", "add", ("ffn_down", "x1"), (), "bf16", ()),
        ]
    w, top = d.expert_width, d.top
    experts = top + d.shared
    shared = ("norm2",) if d.shared else ()

    def per_expert(width: int) -> tuple[tuple[int, int], ...]:
        # Several shared experts are one wider FFN.
        return ((top, width), *(((1, d.shared * width),) if d.shared else ()))

    return [
        *rows,
        Row(
            "router",
            "matmul",
            ("norm2",),
            ((1, 2 * d.experts), (1, 4 * top)),
            "fp32",
            ("norm2",),
            flops=2 * h * d.experts,
        ),
        Row("dispatch", "comm", ("norm2", "router"), ((top, h),), "gate_up", ()),
        Row(
            "gate_up",
            "matmul",
            ("dispatch", *shared),
            per_expert(2 * w),
            "swiglu_in",
            ("dispatch", *shared),
            flops=experts * 2 * h * 2 * w,
        ),
        Row(
            "swiglu",
            "elementwise",
            ("gate_up",),
            per_expert(w),
            "ffn_down",
            ("gate_up",),
            flops=6 * experts * w,
        ),
        Row(
            "ffn_down",
            "matmul",
            ("swiglu",),
            ((top, h),),
            "bf16",
            ("swiglu",),
            flops=experts * 2 * w * h,
        ),
        Row("combine", "comm", ("ffn_down", "router"), ((1, h),), "bf16", ("swiglu", "router")),
        Row("moe_add", "add", ("combine",), ((1, h),), "bf16", ()),
        Row("x2", "add", ("moe_add", "x1"), (), "bf16", ()),
    ]


# The recipes as they are told; every other site is bf16.
_FP8 = ("qkv_down", "q_up", "kv_up", "gate_up", "ffn_down", "swiglu_in")
RECIPES: dict[str, dict[str, str]] = {
    "bf16": {},
    "dsv3-fp8": dict.fromkeys(_FP8, "e4m3") | {"o_proj": "e5m6"},
    "all-fp8": dict.fromkeys(_FP8, "e4m3") | {"o_proj": "e4m3"},
    "nv-mxfp8": dict.fromkeys((*_FP8[:-1], "attn"), "mxfp8"),
}


def width_bytes(fmt: str, width: int) -> int:
    """Bytes of `width` elements in a row: tile by tile, the last one filled up."""
    if fmt == "e4m3":
        return len(range(0, width, 128)) * (128 + 4)
    if fmt == "mxfp8":
        return len(range(0, width, 32)) * (32 + 1)
    per_element = {"fp32": Fraction(4), "bf16": Fraction(2), "e5m6": Fraction(3, 2)}[fmt]
    whole, rest = divmod(per_element * width, 1)
    return int(whole) + (rest > 0)


@dataclass
class Step:
    """One forward and backward of a block, executed on symbolic values.

    `stored` is what forward may leave behind; `fetched` is what was then taken from it, with the
    kinds of the operations that took it.
    """

    rows: list[Row]
    replayed: frozenset[str]
    stored: frozenset[str] | None = None  # None: everything that a saved op made
    fetched: dict[str, set[str]] = field(default_factory=dict)
    used_replays: set[str] = field(default_factory=set)

    def run(self) -> None:
        forward: dict[str, object] = {}
        for row in self.rows:
            self._execute(row, forward, lambda name: forward[name])
        left = {
            name: forward[name]
            for row in self.rows
            if row.name not in self.replayed and row.name != "x2"
            for name in (row.name, *((row.aux[0],) if row.aux else ()))
            if self.stored is None or name in self.stored
        }
        again: dict[str, object] = {}

        def fetch(name: str, row: Row) -> object:
            if name in again:
                self.used_replays.add(name)
                value = again[name]
            elif name in left:
                self.fetched.setdefault(name, set()).add(row.kind)
                value = left[name]
            else:
                raise MissingError(f"{row.name} needs {name}")
            assert value == forward[name], "a replay must give what forward gave"
            return value

        for row in self.rows:  # what was not saved is replayed once, in forward order
            if row.name in self.replayed:
                assert row.name not in again
                self._execute(row, again, lambda name, row=row: fetch(name, row))
        for row in reversed(self.rows):  # backward
            for name in (*row.reads, *((row.aux[0],) if row.aux else ())):
                fetch(name, row)

    @staticmethod
    def _execute(row: Row, into: dict[str, object], value_of: object) -> None:
        assert callable(value_of)
        into[row.name] = hash((row.name, *(value_of(name) for name in row.inputs)))
        if row.aux:
            into[row.aux[0]] = hash((row.aux[0], into[row.name]))


@dataclass(frozen=True)
class Kept:
    """What the executed step says of a set of marks."""

    tensors: Mapping[str, int]
    total: int
    dual: frozenset[str]
    pointless: frozenset[str]
    replayed_communication: frozenset[str]


def site_formats(recipe: str, formats: Mapping[str, str]) -> dict[str, str]:
    return {"bf16": "bf16", "fp32": "fp32"} | RECIPES[recipe] | dict(formats)


def keep(
    kind: str,
    shape: Shape,
    replayed: frozenset[str],
    recipe: str,
    formats: Mapping[str, str],
    *,
    dual_stash: bool,
) -> Kept:
    """Run a step and weigh what it had to keep."""
    rows = table(kind, shape)
    step = Step(rows, replayed)
    step.run()
    at = site_formats(recipe, formats)
    tensors: dict[str, int] = {}
    dual = set()
    for row in rows:
        if row.aux and row.aux[0] in step.fetched:
            tensors[row.aux[0]] = row.aux[1]
        if row.name not in step.fetched:
            continue
        fmt = at.get(row.stored, "bf16")
        size = sum(count * width_bytes(fmt, width) for count, width in row.out)
        if row.name == "norm1" and recipe == "nv-mxfp8" and fmt == "mxfp8":
            size *= 2  # one quantised copy for each of the two down-projections
        if (
            dual_stash
            and fmt == "e4m3"
            and row.stored != "swiglu_in"
            and step.fetched[row.name] & {"matmul", "attention"}
        ):
            dual.add(row.name)
            size *= 2
        tensors[row.name] = size
    return Kept(
        tensors=tensors,
        total=sum(tensors.values()),
        dual=frozenset(dual),
        pointless=frozenset(replayed - step.used_replays),
        replayed_communication=frozenset(
            row.name for row in rows if row.kind == "comm" and row.name in replayed
        ),
    )


def check_minimal(kind: str, shape: Shape, replayed: frozenset[str]) -> None:
    """With exactly what is kept the step runs; with any one thing less it cannot."""
    rows = table(kind, shape)
    step = Step(rows, replayed)
    step.run()
    kept = frozenset(step.fetched)
    Step(rows, replayed, kept).run()
    for name in kept:
        try:
            Step(rows, replayed, kept - {name}).run()
        except MissingError:
            continue
        raise AssertionError(f"{name} was kept for nothing")


def markable(kind: str, shape: Shape) -> list[str]:
    return [row.name for row in table(kind, shape) if row.name not in ("x0", "x2")]


def neutral(
    kind: str,
    shape: Shape,
    replayed: frozenset[str],
    recipe: str,
    formats: Mapping[str, str],
    *,
    dual_stash: bool,
) -> frozenset[str]:
    """Marks whose flip alone leaves the kept bytes as they are."""

    def total(marks: frozenset[str]) -> int:
        return keep(kind, shape, marks, recipe, formats, dual_stash=dual_stash).total

    now = total(replayed)
    return frozenset(op for op in markable(kind, shape) if total(replayed ^ {op}) == now)


def flops(kind: str, shape: Shape, replayed: frozenset[str] | None, seq_len: int) -> int:
    """bf16 FLOPs per token of the replayed operations, or of all."""
    return sum(
        row.flops + row.flops_per_position * seq_len
        for row in table(kind, shape)
        if replayed is None or row.name in replayed
    )


def cost(
    kind: str,
    shape: Shape,
    replayed: frozenset[str] | None,
    recipe: str,
    formats: Mapping[str, str],
    seq_len: int,
) -> Fraction:
    """The same with an fp8 GEMM at half its FLOPs."""
    at = site_formats(recipe, formats)
    total = Fraction(0)
    for row in table(kind, shape):
        if replayed is not None and row.name not in replayed:
            continue
        fast = row.kind == "matmul" and (
            at.get(row.name, "bf16") in ("e4m3", "mxfp8")
            or (row.name == "o_proj" and at.get("o_proj") == "e5m6")
        )
        work = row.flops + row.flops_per_position * seq_len
        total += Fraction(work, 2) if fast else work
    return total
