"""Chapter 1, what training holds: the naive count, and the activations tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from memmodel.devices import device
from memmodel.figures.bars import WIDTH, Row, bars_table, height, log_bars
from memmodel.formats import Number, number_text, size_text
from memmodel.ledger import (
    EMBEDDING_PART,
    HEAD_PART,
    STATES,
    RankLedger,
    layer_counts,
    rank_ledger,
)
from memmodel.plan import Plan
from memmodel.scene import Choice, Figure, Line, Mark, Powers, Rect, Scene, Table, Text

# Everything on every GPU, in bf16, nothing recomputed: the plan that this chapter counts.
NAIVE = Plan(pp=1, ep=1, zero=0, schedule="single", microbatches=1, recipe="bf16", recompute="none")

# The three groups of a state: the routed experts, the vocabulary's tensors, and all else.
GROUPS = ("routed experts", "rest of the blocks", "embedding + head")
_VOCABULARY = ("embedding", "head", "final norm")

# What a kept tensor belongs to, for people: the activation buckets.
BUCKETS: Mapping[str, tuple[str, ...]] = {
    "residual and norms": ("x0", "norm1", "x1", "norm2"),
    "attention": (
        "qkv_down",
        "q_norm",
        "kv_norm",
        "q_up",
        "kv_up",
        "rope_q",
        "rope_kv",
        "attn",
        "o_proj",
    ),
    "experts and FFN": ("dispatch", "gate_up", "swiglu", "ffn_down", "combine", "moe_add"),
    "always fp32": ("router", "lse", "rstd norm1", "rstd norm2", "rstd q_norm", "rstd kv_norm"),
}
VOCABULARY_BUCKET = "embedding + logits"


def group(part: str) -> str:
    """The group of a state's ledger line."""
    if part in _VOCABULARY:
        return "embedding + head"
    return "routed experts" if part == "routed experts" else "rest of the blocks"


def state_groups(ledger: RankLedger, state: str) -> dict[str, Number]:
    """Bytes of one state by group."""
    sums: dict[str, Number] = dict.fromkeys(GROUPS, 0)
    for line in ledger.lines:
        if line.category == state:
            sums[group(line.part)] += line.bytes
    return sums


def activation_buckets(plan: Plan, ledger: RankLedger) -> dict[str, Number]:
    """Bytes of the activations of one rank by bucket: every kept tensor of every stash alive."""
    sums: dict[str, Number] = dict.fromkeys(BUCKETS, 0)
    tokens = Fraction(plan.seq_len * plan.microbatch_size, plan.tp * plan.cp)
    for chunk, alive in zip(ledger.chunks, ledger.stashes, strict=True):
        for kind, layers in layer_counts(plan, (chunk,)).items():
            kept = plan.stashes[kind].tensors
            for bucket, tensors in BUCKETS.items():
                per_token = sum(kept.get(tensor, 0) for tensor in tensors)
                sums[bucket] += tokens * layers * alive * per_token
    ends = (EMBEDDING_PART, HEAD_PART)
    sums[VOCABULARY_BUCKET] = sum(line.bytes for line in ledger.lines if line.part in ends)
    return sums


# --- the naive count -------------------------------------------------------------------------

_SHOWN = (*STATES, "activations")
_BOOKS = {
    "zero": "ZeRO: master weights are optimizer state",
    "fsdp": "FSDP, bf16 weights kept (reshard_after_forward=False)",
    "fsdp-reshard": "FSDP, bf16 weights freed after use (reshard_after_forward=True)",
}


def naive_sizes(books: str = "zero") -> dict[str, dict[str, Number]]:
    """Bytes by category and part, everything on every GPU, booked by one of three conventions.

    FSDP calls the fp32 master copy the parameters: it moves from the optimizer to the weights, and
    the bf16 copy is held only if it is not resharded after forward.
    """
    ledger = rank_ledger(NAIVE, 0)
    sizes = {state: state_groups(ledger, state) for state in STATES}
    if books != "zero":
        per_param = NAIVE.state_bytes
        for part in GROUPS:
            master = sizes["optimizer"][part] * per_param.master / per_param.optimizer
            sizes["optimizer"][part] -= Fraction(master)
            if books == "fsdp-reshard":
                sizes["weights"][part] = 0
            sizes["weights"][part] += Fraction(master)
    sizes["activations"] = activation_buckets(NAIVE, ledger)
    return sizes


def _naive_count(shown: str, books: str) -> Scene:
    sizes = naive_sizes(books)
    visible = _SHOWN[: _SHOWN.index(shown) + 1]
    totals = {category: sum(parts.values()) for category, parts in sizes.items()}
    total = sum(totals[category] for category in visible)
    rows = []
    for category, parts in sizes.items():
        there = category in visible
        rows.append(
            Row(category, category, category, totals[category] if there else None, head=True)
        )
        rows += [
            Row(f"{category}-{part}", part, f"{category} soft", size if there else None)
            for part, size in parts.items()
        ]
    rows.append(Row("total", "total", "text", total, head=True))
    gpu = device(NAIVE.device)
    times = float(Fraction(total) / gpu.nominal_bytes)
    words = ", ".join(f"{category} {size_text(totals[category])}" for category in visible)
    status = f"Total {size_text(total)}, {times:.1f} times {size_text(gpu.nominal_bytes)}."
    if books == "fsdp-reshard":
        layer = 2 * NAIVE.architecture.layer_parameters("moe")
        status += f" The layer in use is gathered on top: {size_text(layer)}, not drawn."
    return Scene(
        width=WIDTH,
        height=height(len(rows)),
        marks=log_bars(rows, gpu.nominal_bytes, "80 GiB"),
        alt=(
            f"Bars on a logarithmic axis, everything on one GPU: {words}. {status} "
            f"Routed experts are {size_text(sizes['weights']['routed experts'])} of the weights."
        ),
        status=status,
        table=bars_table(rows),
    )


# --- the activations of one block, tensor by tensor --------------------------------------------

LEFT, RIGHT, _ROW, _TOP = 190.0, 560.0, 22.0, 12.0
AXIS_KIB = 128  # of the linear axis: parts must add up by eye


def _tensor_rows(kind: str) -> Iterator[tuple[str, bool, int]]:
    """(label, is a bucket's sum, bytes per token), the four rstd statistics as one row."""
    kept = NAIVE.stashes[kind].tensors
    shown = {**NAIVE.stashes["moe"].tensors, **NAIVE.stashes["dense"].tensors}
    for bucket, tensors in BUCKETS.items():
        yield bucket, True, sum(kept.get(tensor, 0) for tensor in tensors)
        single = [t for t in tensors if t in shown and not t.startswith("rstd")]
        for tensor in single:
            yield tensor, False, kept.get(tensor, 0)
        if len(single) < len([t for t in tensors if t in shown]):
            statistics = (size for name, size in kept.items() if name.startswith("rstd"))
            yield "rstd of the norms", False, sum(statistics)


def _tally(kind: str, tokens: str) -> Scene:
    rows = list(_tensor_rows(kind))
    total, count = NAIVE.stashes[kind].bytes_per_token, int(tokens)
    bottom = _TOP + (len(rows) + 1) * _ROW + 4
    marks: list[Mark] = []
    for kib in range(0, AXIS_KIB + 1, 32):
        x = LEFT + (RIGHT - LEFT) * kib / AXIS_KIB
        marks.append(Line(x, _TOP, x, bottom, "grid"))
        label = f"{kib} KiB/token" if kib == AXIS_KIB else f"{kib}"
        marks.append(Text(x, bottom + 18, label, "muted", 12, "middle", id=f"tick-{kib}"))
    for index, (label, head, size) in enumerate(rows):
        marks += _tally_row(label, _TOP + index * _ROW, head=head, size=size, tokens=count)
    top = _TOP + len(rows) * _ROW
    marks += [
        Text(LEFT - 10, top + 16, "one layer", "text", 13, "end", bold=True, id="label-total"),
        Text(
            WIDTH - 4,
            top + 16,
            size_text(total * count),
            "text",
            13,
            "end",
            bold=True,
            id="value-total",
        ),
        Line(LEFT, bottom, RIGHT, bottom, "axis"),
    ]
    heads = ", ".join(f"{label} {size_text(size * count)}" for label, head, size in rows if head)
    status = f"One {_KINDS[kind]} keeps {size_text(total * count)} for {count:,} tokens."
    body = [
        (label if head else f"  {label}", number_text(size), size_text(size * count))
        for label, head, size in rows
    ]
    body.append(("one layer", number_text(total), size_text(total * count)))
    return Scene(
        width=WIDTH,
        height=bottom + 30,
        marks=tuple(marks),
        alt=f"Bars on a linear axis, {total:,} bytes per token: {heads}. {status}",
        status=status,
        table=Table(("tensor", "bytes per token", f"for {count:,} tokens"), tuple(body)),
    )


def _tally_row(label: str, top: float, *, head: bool, size: int, tokens: int) -> list[Mark]:
    high = 14.0 if head else 10.0
    width = (RIGHT - LEFT) * size / (AXIS_KIB * 1024)
    # Sums stay off the axis that their parts are measured on, as a number in bold.
    bar = (
        []
        if head
        else [
            Rect(
                LEFT,
                top + (_ROW - high) / 2,
                width,
                high,
                "activations soft",
                id=f"bar-{label}",
                title=f"{label}: {size:,} bytes per token",
            )
        ]
    )
    return [
        Text(
            LEFT - 10,
            top + 16,
            label,
            "text" if head else "muted",
            13,
            "end",
            bold=head,
            id=f"label-{label}",
        ),
        *bar,
        Text(
            WIDTH - 4,
            top + 16,
            size_text(size * tokens),
            "text" if head else "muted",
            13,
            "end",
            bold=head,
            id=f"value-{label}",
        ),
    ]


_KINDS = {"moe": "MoE layer", "dense": "dense layer"}

FIGURES = {
    figure.name: figure
    for figure in (
        Figure(
            name="naive-count",
            title="Everything on one GPU",
            knobs=(
                Choice(
                    "shown", "Count up to", tuple((name, name) for name in _SHOWN), "activations"
                ),
                Choice("books", "Book-keeping", tuple(_BOOKS.items()), "zero"),
            ),
            draw=_naive_count,
            caption=(
                "Bytes per parameter 2 + 4 + 8 (bf16 weights, fp32 gradients, fp32 master and bf16 "
                "moments); one sequence of 4,096 tokens in bf16, fused kernels, nothing "
                "recomputed. A tick is a factor of two."
            ),
        ),
        Figure(
            name="activation-tally",
            title="What one layer keeps for its backward",
            knobs=(
                Choice("kind", "Layer", tuple(_KINDS.items()), "moe"),
                Powers("tokens", "Tokens", 1024, 32768, "4096"),
            ),
            draw=_tally,
            caption="bf16, fused kernels, nothing recomputed; router state, lse and rstd are "
            "always fp32. The axis is linear: the bars add up.",
        ),
    )
}
