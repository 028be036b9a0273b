"""The memory of one pipeline rank, line by line; each line is the product of its named factors.

A number owns its derivation: `Line.bytes` multiplies the same factors that are shown to the
reader, so a label cannot drift from the arithmetic. Totals are sums of lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from memmodel import schedule
from memmodel.architecture import PARTS, Part
from memmodel.devices import device
from memmodel.formats import FP8_WEIGHT_BYTES, Number, number_text
from memmodel.mesh import Chunk
from memmodel.plan import Plan, as_written

CATEGORIES = ("weights", "gradients", "optimizer", "activations", "reserve")
STATES = CATEGORIES[:3]

# Per token, once per rank that hosts them and for one microbatch: the embedding's output in bf16;
# bf16 logits and their fp32 softmax.
EMBEDDING_PART, EMBEDDING_OUTPUT_BYTES = "embedding output", 2
HEAD_PART, HEAD_BYTES = "logits and their softmax", 2 + 4

Factor = tuple[str, Number]


class Line:
    """One line of a ledger: bytes = product of `factors` / product of `divisors`, exactly."""

    __slots__ = ("bytes", "category", "divisors", "factors", "part")

    def __init__(
        self,
        category: str,
        part: str,
        factors: tuple[Factor, ...],
        divisors: tuple[Factor, ...] = (),
    ) -> None:
        self.category, self.part, self.factors, self.divisors = category, part, factors, divisors
        value: Number = 1
        for _, factor in factors:
            value *= factor
        for _, divisor in divisors:
            # Whole as long as it divides: fractions are exact too, but slow.
            if isinstance(value, int) and value % divisor == 0:
                value //= divisor
            else:
                value = Fraction(value) / divisor
        self.bytes = value if isinstance(value, int) or value.denominator > 1 else value.numerator

    def formula(self) -> str:
        """The arithmetic in words.

        >>> Line("weights", "norms", (("layers", 8), ("bytes each", 2)), (("TP", 4),)).formula()
        '8 layers x 2 bytes each / 4 TP'
        """
        # A factor of one says nothing (one sequence per microbatch): it stays in the JSON.
        telling = [factor for factor in self.factors if factor[1] != 1] or self.factors
        above = " x ".join(f"{number_text(value)} {name}" for name, value in telling)
        below = "".join(f" / {number_text(value)} {name}" for name, value in self.divisors)
        return above + below


@dataclass(frozen=True)
class RankLedger:
    """What every GPU of one pipeline rank holds at the rank's peak.

    `stashes` counts, chunk by chunk, the microbatches whose activations are alive at the first
    moment with the most bytes.
    """

    rank: int
    chunks: tuple[Chunk, ...]
    stashes: tuple[int, ...]
    lines: tuple[Line, ...]

    @cached_property
    def totals(self) -> dict[str, Number]:
        """Bytes of every category: the sum of its lines."""
        sums: dict[str, Number] = dict.fromkeys(CATEGORIES, 0)
        for line in self.lines:
            sums[line.category] += line.bytes
        return sums

    @cached_property
    def total(self) -> Number:
        return sum(self.totals.values())


@dataclass(frozen=True)
class Account:
    """The ledgers of all pipeline ranks of a plan, and the verdict of its heaviest."""

    plan: Plan
    ranks: tuple[RankLedger, ...]

    @cached_property
    def peak(self) -> RankLedger:
        """The rank with the most bytes, the first of several."""
        return max(self.ranks, key=lambda ledger: ledger.total)

    @property
    def fits(self) -> bool:
        """Whether the heaviest rank, reserve included, is within what the device gives."""
        return self.peak.total <= device(self.plan.device).usable_bytes

    @property
    def slack_bytes(self) -> Number:
        """Nominal memory minus the heaviest rank's total; negative where it is exceeded."""
        return device(self.plan.device).nominal_bytes - self.peak.total


def account(plan: Plan) -> Account:
    """The ledgers of every rank.

    >>> account(Plan()).peak.rank, account(Plan()).peak.total
    (1, 66296545344)
    """
    return Account(plan, tuple(rank_ledger(plan, rank) for rank in range(plan.pp)))


def rank_ledger(plan: Plan, rank: int) -> RankLedger:
    """The ledger of one pipeline rank. Raises ValueError for a rank that does not exist."""
    if not 0 <= rank < plan.pp:
        raise ValueError(f"rank = {rank}, but pp = {plan.pp} has ranks 0 to {plan.pp - 1}")
    chunks = plan.chunks_of_rank[rank]
    stashes = _stashes(plan, rank, chunks)
    lines = [*_state_lines(plan, chunks), *_activation_lines(plan, chunks, stashes)]
    if plan.reserve_gib:
        reserve = (("GiB", as_written(plan.reserve_gib)), ("bytes per GiB", 2**30))
        lines.append(Line("reserve", "set aside", reserve))
    return RankLedger(rank, chunks, stashes, tuple(lines))


def layer_counts(plan: Plan, chunks: tuple[Chunk, ...]) -> dict[str, int]:
    """How many layers of each kind some chunks have together."""
    arch = plan.architecture
    return {
        kind: sum(arch.num_layers(kind, chunk.first, chunk.stop) for chunk in chunks)
        for kind in arch.kinds
    }


def _state_lines(plan: Plan, chunks: tuple[Chunk, ...]) -> Iterator[Line]:
    """Weights, gradients and optimizer states: the same parts, three times."""
    held = _layer_parts(plan, chunks)
    ends = [
        plan.architecture.end_parts[name]
        for chunk in chunks
        for name, there in (
            ("embedding", chunk.embedding),
            ("final norm", chunk.head),
            ("head", chunk.head),
        )
        if there
    ]
    for state in STATES:
        divisors = _divisors(plan, state)
        per_param = _bytes_per_parameter(plan, state, in_block=True)
        for name, split, factors in held:
            yield Line(state, name, (*factors, per_param), divisors[split])
        per_param = _bytes_per_parameter(plan, state, in_block=False)
        for part in ends:
            parameters = ("parameters", part.elements)
            yield Line(state, part.name, (parameters, per_param), divisors[part.split])


def _layer_parts(
    plan: Plan, chunks: tuple[Chunk, ...]
) -> list[tuple[str, str, tuple[Factor, ...]]]:
    """Name, split and parameters of what the layers hold, as factors, in the ledger's order.

    Kinds of layers that have equally many parameters of a part share a line.
    """
    arch = plan.architecture
    merged: dict[Part, int] = {}
    for kind, layers in layer_counts(plan, chunks).items():
        for part in arch.layer_parts[kind] if layers else ():
            merged[part] = merged.get(part, 0) + layers
    return [
        (
            part.name,
            part.split,
            (
                ("MoE layers", layers),
                ("experts on this rank", arch.num_experts // plan.ep),
                ("parameters per expert", part.elements // arch.num_experts),
            )
            if part.split == "experts"
            else (
                ("layers", layers),
                ("parameters per layer", part.elements),
            ),
        )
        for part, layers in sorted(merged.items(), key=_place)
    ]


def _place(item: tuple[Part, int]) -> int:
    return _PLACES[item[0].name]


_PLACES = {name: place for place, name in enumerate(PARTS)}


def _divisors(plan: Plan, state: str) -> dict[str, tuple[Factor, ...]]:
    """What divides a state, by the split of its tensors."""
    mesh = plan.mesh
    replicas: tuple[Factor, ...] = ()
    expert_replicas: tuple[Factor, ...] = ()
    if mesh.sharded(state):
        # Both copies of a bidirectional pipeline's stage belong to the replicas that share a shard.
        copies = ("copies of the stage", plan.copies)
        replicas = (("DP", mesh.dp), ("CP", mesh.cp), copies)
        expert_replicas = (("EDP", mesh.edp), copies)
    return {
        "": _over(*replicas),
        "tp": _over(("TP", mesh.tp), *replicas),
        "experts": _over(("ETP", mesh.etp), *expert_replicas),
    }


def _over(*divisors: Factor) -> tuple[Factor, ...]:
    return tuple([divisor for divisor in divisors if divisor[1] != 1])


def _bytes_per_parameter(plan: Plan, state: str, *, in_block: bool) -> Factor:
    value: Number = getattr(plan.state_bytes, state)
    if state == "weights" and plan.fp8_params and in_block:
        value = FP8_WEIGHT_BYTES
    return ("bytes per parameter", value)


def _chunk_bytes(plan: Plan, chunk: Chunk) -> int:
    """Bytes per token that one microbatch leaves in a chunk, embedding and head apart."""
    return sum(
        layers * plan.stashes[kind].bytes_per_token
        for kind, layers in layer_counts(plan, (chunk,)).items()
    )


def _stashes(plan: Plan, rank: int, chunks: tuple[Chunk, ...]) -> tuple[int, ...]:
    if plan.pp == 1:
        return (1,)
    return schedule.peak(
        plan.schedule,
        rank,
        pp=plan.pp,
        microbatches=plan.num_microbatches,
        virtual_stages=plan.num_virtual_stages,
        chunk_bytes=tuple(_chunk_bytes(plan, chunk) for chunk in chunks),
    )


def _activation_lines(
    plan: Plan, chunks: tuple[Chunk, ...], stashes: tuple[int, ...]
) -> Iterator[Line]:
    arch, mesh = plan.architecture, plan.mesh
    tokens = (
        ("sequences per microbatch", plan.microbatch_size),
        ("tokens per sequence", plan.seq_len),
    )
    split = _over(("TP", mesh.tp), ("CP", mesh.cp))
    for index, (chunk, alive) in enumerate(zip(chunks, stashes, strict=True)):
        for kind, layers in layer_counts(plan, (chunk,)).items():
            if layers:
                yield Line(
                    "activations",
                    f"chunk {index}, {_KIND_NAMES[kind]} layers",
                    (
                        ("microbatches alive", alive),
                        ("layers", layers),
                        *tokens,
                        ("bytes per token", plan.stashes[kind].bytes_per_token),
                    ),
                    split,
                )
    ends = (
        (
            EMBEDDING_PART,
            any(chunk.embedding for chunk in chunks),
            arch.hidden_size,
            "bytes per element",
            EMBEDDING_OUTPUT_BYTES,
        ),
        (
            HEAD_PART,
            any(chunk.head for chunk in chunks),
            arch.vocab_size,
            "bytes per logit",
            HEAD_BYTES,
        ),
    )
    for name, there, width, unit, size in ends:
        if there:
            factors = (*tokens, ("elements per token", width), (unit, size))
            yield Line("activations", name, factors, split)


_KIND_NAMES = {"dense": "dense", "moe": "MoE"}
