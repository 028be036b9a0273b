"""One transformer block as a graph of operations: shapes, FLOPs, what each backward reads.

Shapes, not bytes: formats are applied later. All widths are per token and for the whole model;
parallelism divides tokens, not widths. The operations and their conventions are those of a
DeepSeek-V3 block with fused kernels (DeepSeek-V3 report, 2.1 and 3.2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from memmodel.architecture import Architecture

ROUTER_STATES = 2  # fp32 values kept per expert: logits and scores
ROUTER_CHOICES = 4  # fp32-sized values kept per chosen expert: index, weight and their scratch


@dataclass(frozen=True)
class Op:
    """One operation. Its output tensor has the same name.

    `rows` are (count, width) pairs of the output, per token; `stored` is the site whose format the
    output is stored in (or "bf16" / "fp32", always); `reads` are the tensors that its backward
    needs; `aux` is a small fp32 statistic (name, elements) that is kept unless the op is replayed.
    Forward FLOPs per token are flops + flops_per_position * seq_len (causal attention sees half
    of the sequence on average).
    """

    name: str
    kind: str  # boundary | norm | matmul | elementwise | attention | add | comm | swiglu
    inputs: tuple[str, ...] = ()
    rows: tuple[tuple[int, int], ...] = ()
    stored: str = "bf16"
    reads: tuple[str, ...] = ()
    aux: tuple[str, int] | None = None
    flops: int = 0
    flops_per_position: int = 0

    @property
    def elements(self) -> int:
        return sum(count * width for count, width in self.rows)

    @property
    def has_gemm(self) -> bool:
        """Whether tensor cores do its work: a GEMM, or attention's two."""
        return self.kind in ("matmul", "attention")

    def forward_flops(self, seq_len: int) -> int:
        return self.flops + self.flops_per_position * seq_len


@dataclass(frozen=True, eq=False)
class Block:
    """The operations of one block in forward order, x0 (the block's input) first, x2 last."""

    kind: str
    ops: tuple[Op, ...]

    @cached_property
    def by_name(self) -> dict[str, Op]:
        return {op.name: op for op in self.ops}

    @cached_property
    def markable(self) -> tuple[str, ...]:
        """The ops that carry a save / recompute mark.

        All but x0, which is always saved, and x2, the next block's x0, which is charged there.
        """
        return tuple(op.name for op in self.ops if op.name not in ("x0", "x2"))

    @cached_property
    def readers(self) -> dict[str, tuple[Op, ...]]:
        """Tensor -> the ops whose backward reads it."""
        return {t: tuple(op for op in self.ops if t in op.reads) for t in self.by_name}

    @cached_property
    def consumers(self) -> dict[str, tuple[Op, ...]]:
        """Tensor -> the ops that take it as an input, in forward and in a replay."""
        return {t: tuple(op for op in self.ops if t in op.inputs) for t in self.by_name}


def _matmul(
    name: str, inputs: tuple[str, ...], rows: tuple[tuple[int, int], ...], stored: str, weights: int
) -> Op:
    """A GEMM over `weights` weight elements per token: two FLOPs each, and its inputs are read."""
    return Op(name, "matmul", inputs, rows, stored, reads=inputs, flops=2 * weights)


def _norm(name: str, source: str, width: int, stored: str) -> Op:
    """RMSNorm: reads its input and one fp32 reciprocal deviation; 8 FLOPs per element."""
    return Op(
        name,
        "norm",
        (source,),
        ((1, width),),
        stored,
        (source,),
        (f"rstd {name}", 1),
        flops=8 * width,
    )


@lru_cache(maxsize=64)
def block(arch: Architecture, kind: str) -> Block:
    """The graph of one block of `kind`. Raises ValueError for a kind that the model does not have.

    >>> from memmodel.configs import load
    >>> moe = block(load("deepseek-v3"), "moe")
    >>> sum(op.forward_flops(4096) for op in moe.ops)
    1338667392
    """
    if kind not in arch.kinds:
        raise ValueError(f"kind {kind!r}: {arch.name} has {' and '.join(arch.kinds)} blocks")
    ffn = _moe_ffn(arch) if kind == "moe" else _dense_ffn(arch)
    return Block(kind, (*_attention(arch), *ffn))


def _attention(arch: Architecture) -> tuple[Op, ...]:
    h, heads = arch.hidden_size, arch.num_attention_heads
    q_lora, kv_lora, rope = arch.q_lora_rank, arch.kv_lora_rank, arch.qk_rope_head_dim
    q_width = heads * arch.qk_head_dim
    # Keys are kept as attention takes them: every head has its own copy of the rotary part.
    kv_width = heads * (arch.qk_head_dim + arch.v_head_dim)
    kv_up = heads * (arch.qk_nope_head_dim + arch.v_head_dim)
    out = heads * arch.v_head_dim
    return (
        Op("x0", "boundary", rows=((1, h),)),
        _norm("norm1", "x0", h, "qkv_down"),
        # The rotary columns of the kv projection (rope elements per token) are not kept here.
        _matmul(
            "qkv_down",
            ("norm1",),
            ((1, q_lora), (1, kv_lora)),
            "bf16",
            h * (q_lora + kv_lora + rope),
        ),
        Op(
            "q_norm",
            "norm",
            ("qkv_down",),
            ((1, q_lora),),
            "q_up",
            ("qkv_down",),
            ("rstd q_norm", 1),
            flops=8 * q_lora,
        ),
        Op(
            "kv_norm",
            "norm",
            ("qkv_down",),
            ((1, kv_lora),),
            "kv_up",
            ("qkv_down",),
            ("rstd kv_norm", 1),
            flops=8 * kv_lora,
        ),
        _matmul("q_up", ("q_norm",), ((1, q_width),), "attn", q_lora * q_width),
        _matmul("kv_up", ("kv_norm",), ((1, kv_width),), "attn", kv_lora * kv_up),
        Op("rope_q", "elementwise", ("q_up",), ((1, q_width),), "attn", flops=6 * heads * rope),
        Op("rope_kv", "elementwise", ("kv_up",), ((1, kv_width),), "attn", flops=6 * rope),
        # Q K^T and P V: 2 * heads * (qk + v) FLOPs per visible position, half the sequence.
        Op(
            "attn",
            "attention",
            ("rope_q", "rope_kv"),
            ((1, out),),
            "o_proj",
            ("rope_q", "rope_kv", "attn"),
            ("lse", heads),
            flops_per_position=heads * (arch.qk_head_dim + arch.v_head_dim),
        ),
        _matmul("o_proj", ("attn",), ((1, h),), "bf16", out * h),
        Op("x1", "add", ("o_proj", "x0"), ((1, h),)),
        _norm("norm2", "x1", h, "gate_up"),
    )


def _dense_ffn(arch: Architecture) -> tuple[Op, ...]:
    h, width = arch.hidden_size, arch.intermediate_size
    return (
        _matmul("gate_up", ("norm2",), ((1, 2 * width),), "swiglu_in", h * 2 * width),
        Op(
            "swiglu",
            "swiglu",
            ("gate_up",),
            ((1, width),),
            "ffn_down",
            ("gate_up",),
            flops=6 * width,
        ),
        _matmul("ffn_down", ("swiglu",), ((1, h),), "bf16", width * h),
        Op("x2", "add", ("ffn_down", "x1"), ((1, h),)),
    )


def _moe_ffn(arch: Architecture) -> tuple[Op, ...]:
    h, top, width = arch.hidden_size, arch.num_experts_per_tok, arch.moe_intermediate_size
    shared = arch.shared_width

    def routed_and_shared(times: int) -> tuple[tuple[int, int], ...]:
        rows = ((top, times * width), (1, times * shared))
        return rows if shared else rows[:1]

    active_width = top * width + shared
    router_state = ((1, ROUTER_STATES * arch.num_experts), (1, ROUTER_CHOICES * top))
    # The shared expert reads norm2 directly; routed experts read the dispatched copies.
    ffn_inputs = ("dispatch", "norm2") if shared else ("dispatch",)
    return (
        Op(
            "router",
            "matmul",
            ("norm2",),
            router_state,
            "fp32",
            ("norm2",),
            flops=2 * h * arch.num_experts,
        ),
        Op("dispatch", "comm", ("norm2", "router"), ((top, h),), "gate_up"),
        _matmul("gate_up", ffn_inputs, routed_and_shared(2), "swiglu_in", h * 2 * active_width),
        # Gate weights are applied here, so the combine's backward needs this output and the
        # router state, not the experts' outputs.
        Op(
            "swiglu",
            "swiglu",
            ("gate_up",),
            routed_and_shared(1),
            "ffn_down",
            ("gate_up",),
            flops=6 * active_width,
        ),
        # Convention: the shared expert's own output is never kept.
        Op(
            "ffn_down",
            "matmul",
            ("swiglu",),
            ((top, h),),
            "bf16",
            ("swiglu",),
            flops=2 * active_width * h,
        ),
        Op("combine", "comm", ("ffn_down", "router"), ((1, h),), reads=("swiglu", "router")),
        Op("moe_add", "add", ("combine",), ((1, h),)),
        Op("x2", "add", ("moe_add", "x1"), ((1, h),)),
    )
