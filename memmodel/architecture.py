"""A published model: its dimensions, and every parameter tensor it owns.

Field names are spelled as in Hugging Face configs; `configs` reads those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

# The classes that `memmodel params` sums by, in its order.
CLASSES = (
    "embedding",
    "attention",
    "dense_ffn",
    "router",
    "routed_experts",
    "shared_experts",
    "norms",
    "lm_head",
)

# The lines that a ledger's states are broken into, in its order.
PARTS = (
    "routed experts",
    "shared experts",
    "dense FFN",
    "attention heads",
    "attention latents",
    "routers",
    "norms",
    "embedding",
    "head",
    "final norm",
)


@dataclass(frozen=True)
class Tensor:
    """One learned tensor, or `count` equal ones (the experts of a layer).

    `part` is its line in the ledger; `split` says what divides it: "tp", "experts" (EP and ETP)
    or "" for tensors that every rank of a tensor-parallel group holds whole.
    """

    name: str
    shape: tuple[int, ...]
    cls: str
    part: str
    split: str = ""
    count: int = 1
    trainable: bool = True  # False for learned buffers, which no optimizer step updates

    @property
    def elements(self) -> int:
        return prod(self.shape) * self.count


@dataclass(frozen=True)
class Part:
    """What a layer adds to one line of the ledger: `elements` learned values, summed by tensor."""

    name: str
    split: str
    elements: int


@dataclass(frozen=True, eq=False)
class Architecture:
    """Dimensions of a decoder-only transformer with multi-head latent attention."""

    name: str
    model_type: str
    num_hidden_layers: int
    first_k_dense_replace: int  # the first layers, with a dense FFN
    hidden_size: int
    vocab_size: int
    num_attention_heads: int
    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    attention_bias: bool
    intermediate_size: int  # of the dense FFN
    moe_intermediate_size: int  # of one expert
    num_experts: int  # routed
    num_experts_per_tok: int
    num_shared_experts: int
    num_mtp_layers: int  # multi-token prediction modules, left out of the main model
    notes: tuple[str, ...] = ()  # what the config left open, and what was assumed

    @property
    def qk_head_dim(self) -> int:
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def shared_width(self) -> int:
        """Width of the shared experts together: they are one wider FFN."""
        return self.num_shared_experts * self.moe_intermediate_size

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of block that this model has, in order of first use."""
        return tuple(kind for kind in ("dense", "moe") if self.num_layers(kind))

    def num_layers(self, kind: str, first: int = 0, stop: int | None = None) -> int:
        """How many of the layers first..stop-1 are of `kind` ("dense" or "moe")."""
        stop = self.num_hidden_layers if stop is None else stop
        dense = max(0, min(stop, self.first_k_dense_replace) - first)
        return dense if kind == "dense" else stop - first - dense

    def tp_widths(self) -> Iterable[tuple[str, int]]:
        """The named widths that tensor parallelism must divide."""
        yield "num_attention_heads", self.num_attention_heads
        if self.num_layers("dense"):
            yield "intermediate_size", self.intermediate_size
        if self.num_layers("moe") and self.num_shared_experts:
            yield "the shared experts' width", self.shared_width

    def layer_tensors(self, kind: str) -> tuple[Tensor, ...]:
        """Every learned tensor of one layer, under its checkpoint name without the prefix."""
        h, heads = self.hidden_size, self.num_attention_heads
        down, by_heads = "attention latents", "attention heads"
        tensors = [
            Tensor("input_layernorm", (h,), "norms", "norms"),
            Tensor("self_attn.q_a_proj", (self.q_lora_rank, h), "attention", down),
            Tensor("self_attn.q_a_layernorm", (self.q_lora_rank,), "norms", "norms"),
            Tensor(
                "self_attn.q_b_proj",
                (heads * self.qk_head_dim, self.q_lora_rank),
                "attention",
                by_heads,
                "tp",
            ),
            Tensor(
                "self_attn.kv_a_proj_with_mqa",
                (self.kv_lora_rank + self.qk_rope_head_dim, h),
                "attention",
                down,
            ),
            Tensor("self_attn.kv_a_layernorm", (self.kv_lora_rank,), "norms", "norms"),
            Tensor(
                "self_attn.kv_b_proj",
                (heads * (self.qk_nope_head_dim + self.v_head_dim), self.kv_lora_rank),
                "attention",
                by_heads,
                "tp",
            ),
            Tensor("self_attn.o_proj", (h, heads * self.v_head_dim), "attention", by_heads, "tp"),
            Tensor("post_attention_layernorm", (h,), "norms", "norms"),
        ]
        if self.attention_bias:
            tensors += [
                Tensor("self_attn.q_a_proj.bias", (self.q_lora_rank,), "attention", down),
                Tensor(
                    "self_attn.kv_a_proj_with_mqa.bias",
                    (self.kv_lora_rank + self.qk_rope_head_dim,),
                    "attention",
                    down,
                ),
                Tensor("self_attn.o_proj.bias", (h,), "attention", down),
            ]
        if kind == "dense":
            tensors += _swiglu("mlp", h, self.intermediate_size, "dense_ffn", "dense FFN", "tp")
            return tuple(tensors)
        tensors += [
            Tensor("mlp.gate", (self.num_experts, h), "router", "routers"),
            Tensor(
                "mlp.gate.e_score_correction_bias",
                (self.num_experts,),
                "router",
                "routers",
                trainable=False,
            ),
            *_swiglu(
                "mlp.experts.*",
                h,
                self.moe_intermediate_size,
                "routed_experts",
                "routed experts",
                "experts",
                self.num_experts,
            ),
        ]
        if self.num_shared_experts:
            tensors += _swiglu(
                "mlp.shared_experts", h, self.shared_width, "shared_experts", "shared experts", "tp"
            )
        return tuple(tensors)

    def end_tensors(self) -> tuple[Tensor, ...]:
        """The tensors outside the layers: embedding, final norm, head."""
        shape = (self.vocab_size, self.hidden_size)
        return (
            Tensor("model.embed_tokens", shape, "embedding", "embedding", "tp"),
            Tensor("model.norm", (self.hidden_size,), "norms", "final norm"),
            Tensor("lm_head", shape, "lm_head", "head", "tp"),
        )

    @cached_property
    def layer_parts(self) -> Mapping[str, tuple[Part, ...]]:
        """For each kind of layer, the learned values of one layer by part of the ledger."""
        return {kind: _parts(self.layer_tensors(kind)) for kind in self.kinds}

    @cached_property
    def end_parts(self) -> Mapping[str, Part]:
        return {part.name: part for part in _parts(self.end_tensors())}

    def tensors(self) -> Iterable[tuple[Tensor, int]]:
        """Every learned tensor with the number of layers that have it (1 outside the layers)."""
        for kind in self.kinds:
            for tensor in self.layer_tensors(kind):
                yield tensor, self.num_layers(kind)
        for tensor in self.end_tensors():
            yield tensor, 1

    def parameters(self, cls: str | None = None, trainable: bool | None = None) -> int:
        """Learned values of a class, or of all; `trainable` True leaves learned buffers out."""
        return sum(
            tensor.elements * layers
            for tensor, layers in self.tensors()
            if cls in (None, tensor.cls) and trainable in (None, tensor.trainable)
        )

    def layer_parameters(self, kind: str) -> int:
        return sum(part.elements for part in self.layer_parts[kind])

    @property
    def active_parameters(self) -> int:
        """Values that one token meets, by DeepSeek's convention: with head, without embedding."""
        idle = 0
        if self.num_experts:
            unused = self.num_experts - self.num_experts_per_tok
            idle = self.parameters("routed_experts") // self.num_experts * unused
        return self.parameters() - idle - self.parameters("embedding")

    @property
    def mtp_parameters(self) -> int:
        """Own parameters of the multi-token prediction modules, which share embedding and head.

        Each is one more layer of the last kind, a projection from 2h to h, and three norms.
        """
        h = self.hidden_size
        return self.num_mtp_layers * (self.layer_parameters(self.kinds[-1]) + 2 * h * h + 3 * h)


def _swiglu(
    name: str, hidden: int, width: int, cls: str, part: str, split: str, count: int = 1
) -> list[Tensor]:
    """The three matrices of a gated FFN."""
    return [
        Tensor(f"{name}.gate_proj", (width, hidden), cls, part, split, count),
        Tensor(f"{name}.up_proj", (width, hidden), cls, part, split, count),
        Tensor(f"{name}.down_proj", (hidden, width), cls, part, split, count),
    ]


def _parts(tensors: Iterable[Tensor]) -> tuple[Part, ...]:
    sums: dict[tuple[str, str], int] = {}
    for tensor in tensors:
        key = (tensor.part, tensor.split)
        sums[key] = sums.get(key, 0) + tensor.elements
    return tuple(Part(name, split, elements) for (name, split), elements in sums.items())
