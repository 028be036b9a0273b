"""What the command line prints: JSON documents for scripts, and tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from memmodel import schedule
from memmodel.architecture import CLASSES, Architecture
from memmodel.devices import device
from memmodel.formats import Number, number_text, size_text
from memmodel.ledger import CATEGORIES, Account, Line, RankLedger
from memmodel.recompute import Stash

Document = dict[str, object]


def plain(value: Number | float) -> int | float:
    """A number for JSON: whole values as integers."""
    return int(value) if value == int(value) else float(value)


def table(rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Rows as aligned columns, those in `right` to the right; the last column is not padded."""
    rows, right = [list(row) for row in rows], set(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


# --- account ---------------------------------------------------------------------------------


def account_document(found: Account, ranks: Sequence[RankLedger]) -> Document:
    """The JSON of `account`: the plan resolved, some ranks, and the verdict over all."""
    plan, mesh, gpu = found.plan, found.plan.mesh, device(found.plan.device)
    return {
        "plan": plan.resolved(),
        "mesh": {
            "gpus": mesh.gpus,
            "tp": mesh.tp,
            "cp": mesh.cp,
            "pp": mesh.pp,
            "dp": mesh.dp,
            "ep": mesh.ep,
            "etp": mesh.etp,
            "edp": mesh.edp,
        },
        "ranks": [_rank_document(ledger) for ledger in ranks],
        "peak_rank": found.peak.rank,
        "fits": found.fits,
        "nominal_bytes": gpu.nominal_bytes,
        "usable_bytes": gpu.usable_bytes,
        "slack_bytes": plain(found.slack_bytes),
    }


def _rank_document(ledger: RankLedger) -> Document:
    return {
        "rank": ledger.rank,
        "layers": [[chunk.first, chunk.stop] for chunk in ledger.chunks],
        "embedding": any(chunk.embedding for chunk in ledger.chunks),
        "head": any(chunk.head for chunk in ledger.chunks),
        "stashes": list(ledger.stashes),
        **{category: plain(size) for category, size in ledger.totals.items()},
        "total": plain(ledger.total),
        "lines": [_line_document(line) for line in ledger.lines],
    }


def _line_document(line: Line) -> Document:
    return {
        "category": line.category,
        "part": line.part,
        "bytes": plain(line.bytes),
        "factors": [[name, plain(value)] for name, value in line.factors],
        "divisors": [[name, plain(value)] for name, value in line.divisors],
    }


def account_text(found: Account, ranks: Sequence[RankLedger]) -> str:
    """The verdict first; then one rank line by line, or all ranks with a row each."""
    plan, gpu = found.plan, device(found.plan.device)
    over = found.peak.total - gpu.usable_bytes
    verdict = "fits" if found.fits else f"does not fit, {size_text(over)} too much"
    slack = (
        f"{size_text(found.slack_bytes)} of slack to {size_text(gpu.nominal_bytes)}"
        if found.slack_bytes >= 0
        else f"{size_text(-found.slack_bytes)} over {size_text(gpu.nominal_bytes)}"
    )
    held = f"peak rank {found.peak.rank} of {plan.pp} holds {size_text(found.peak.total)}"
    parts = [
        f"{plan.architecture.name} on {plan.gpus:,} x {gpu.title}: {verdict}",
        f"{held}: {slack} ({size_text(gpu.usable_bytes)} usable)",
        "",
        _ranks_table(ranks) if len(ranks) > 1 else _lines_table(ranks[0]),
    ]
    return "\n".join(parts)


def _where(ledger: RankLedger) -> str:
    """Which layers a rank hosts, chunk by chunk, in words."""
    words = []
    for chunk in ledger.chunks:
        layers = {0: "no layer", 1: f"layer {chunk.first}"}.get(
            chunk.num_layers, f"layers {chunk.first}-{chunk.stop - 1}"
        )
        words.append(
            ("embedding, " if chunk.embedding else "") + layers + (", head" if chunk.head else "")
        )
    return "; ".join(words)


def _lines_table(ledger: RankLedger) -> str:
    alive = " + ".join(map(str, ledger.stashes))
    microbatches = "microbatch" if ledger.stashes == (1,) else "microbatches"
    rows = [[f"rank {ledger.rank}", "", "", f"{_where(ledger)}; {alive} {microbatches} alive"]]
    for category in CATEGORIES:
        lines = [line for line in ledger.lines if line.category == category]
        if category == "reserve" and not lines:
            continue
        size = ledger.totals[category]
        share = f"{float(100 * Fraction(size) / Fraction(ledger.total)):.1f} %"
        rows.append([category, size_text(size), share, number_text(size) + " B"])
        rows += [[f"  {line.part}", size_text(line.bytes), "", line.formula()] for line in lines]
    rows.append(["total", size_text(ledger.total), "", number_text(ledger.total) + " B"])
    return table(rows, right=(1, 2))


def _ranks_table(ranks: Sequence[RankLedger]) -> str:
    shown = [c for c in CATEGORIES if c != "reserve" or any(ledger.totals[c] for ledger in ranks)]
    rows = [["rank", *shown, "total", "alive", "holds"]]
    rows += [
        [
            str(ledger.rank),
            *(size_text(ledger.totals[category]) for category in shown),
            size_text(ledger.total),
            " + ".join(map(str, ledger.stashes)),
            _where(ledger),
        ]
        for ledger in ranks
    ]
    return table(rows, right=range(len(shown) + 3))


# --- block -----------------------------------------------------------------------------------


def block_document(found: Stash, seq_len: int) -> Document:
    """The JSON of `block`: what is kept, replayed and warned of, per token."""
    forward, replay = found.forward_flops(seq_len), found.replay_flops(seq_len)
    return {
        "kind": found.block.kind,
        "stash_bytes_per_token": found.bytes_per_token,
        "tensors": dict(found.tensors),
        "replayed": [name for name in found.block.markable if name in found.replayed],
        "forward_flops_per_token": forward,
        "replay_flops_per_token": replay,
        "replay_fraction": plain(replay / forward),
        "forward_cost_per_token": found.forward_cost(seq_len),
        "replay_cost_per_token": found.replay_cost(seq_len),
        "replayed_communication": list(found.replayed_communication),
        "pointless": list(found.pointless),
        "neutral": list(found.neutral),
        "dual": list(found.dual),
    }


def block_text(found: Stash, seq_len: int) -> str:
    """A row for each op: its mark, what is kept of it, and its forward FLOPs."""
    rows = [["op", "mark", "format", "kept B/token", "forward MFLOP/token", ""]]
    for op in found.block.ops:
        name, fmt = op.name, found.recipe.at(op.stored).name
        mark = {"x0": "input", "x2": "output"}.get(
            name, "replay" if name in found.replayed else "save"
        )
        notes = [
            word
            for word, names in (
                ("pointless", found.pointless),
                ("neutral", found.neutral),
                ("dual", found.dual),
            )
            if name in names
        ]
        kept = found.tensors.get(name, 0)
        flops = op.forward_flops(seq_len) / 1e6
        rows.append(
            [name, mark, fmt if kept else "", f"{kept:,}", f"{flops:,.1f}", ", ".join(notes)]
        )
    statistics = found.bytes_per_token - sum(
        size for name, size in found.tensors.items() if name in found.block.by_name
    )
    rows.append(["statistics", "", "fp32" if statistics else "", f"{statistics:,}", "", ""])
    forward, replay = found.forward_flops(seq_len), found.replay_flops(seq_len)
    rows.append(["total", "", "", f"{found.bytes_per_token:,}", f"{forward / 1e6:,.1f}", ""])
    head = (
        f"one {found.block.kind} block keeps {found.bytes_per_token:,} B per token, "
        f"{size_text(found.bytes_per_token * seq_len)} for {seq_len:,} tokens\n"
        f"backward replays {100 * replay / forward:.2f} % of its forward FLOPs"
    )
    if found.replayed_communication:
        head += f", and the communication of {' and '.join(found.replayed_communication)}"
    return head + "\n\n" + table(rows, right=(3, 4))


# --- params ----------------------------------------------------------------------------------


def params_document(arch: Architecture) -> Document:
    """The JSON of `params`: learned values by class and by kind of layer."""
    total, trainable = arch.parameters(), arch.parameters(trainable=True)
    return {
        "model": arch.name,
        "total": total,
        "trainable": trainable,
        "buffers": total - trainable,
        "active": arch.active_parameters,
        "mtp": arch.mtp_parameters,
        "by_class": {cls: arch.parameters(cls) for cls in CLASSES},
        "layers": [
            {
                "kind": kind,
                "count": arch.num_layers(kind),
                "parameters": arch.layer_parameters(kind),
            }
            for kind in arch.kinds
        ],
        "notes": list(arch.notes),
    }


def params_text(arch: Architecture) -> str:
    """Learned values by class, and what was assumed of the config."""
    total = arch.parameters()
    rows = [
        [cls, f"{arch.parameters(cls):,}", f"{100 * arch.parameters(cls) / total:.2f} %"]
        for cls in CLASSES
    ]
    rows.append(["total", f"{total:,}", ""])
    rows.append(["active per token", f"{arch.active_parameters:,}", "head counted, embedding not"])
    if arch.num_mtp_layers:
        rows.append(["MTP, on top", f"{arch.mtp_parameters:,}", "not in the total"])
    layers = ", ".join(
        f"{number} {kind} {'layer' if number == 1 else 'layers'} of {arch.layer_parameters(kind):,}"
        for kind in arch.kinds
        for number in (arch.num_layers(kind),)
    )
    notes = "".join(f"\nnote: {note}" for note in arch.notes)
    return f"{arch.name}: {layers}\n\n" + table(rows, right=(1, 2)) + notes


# --- schedule --------------------------------------------------------------------------------


def schedule_document(name: str, *, pp: int, microbatches: int, virtual_stages: int) -> Document:
    """The JSON of `schedule`: peaks, bubble and order, in unit costs."""
    size: dict[str, Any] = {
        "pp": pp,
        "microbatches": microbatches,
        "virtual_stages": virtual_stages,
    }
    peaks, run = schedule.peaks(name, **size), schedule.timeline(name, **size)
    return {
        "peak_stashes": [sum(by_chunk) for by_chunk in peaks],
        "peak_by_chunk": [list(by_chunk) for by_chunk in peaks],
        "makespan": run.makespan,
        "bubble": run.bubble,
        "bubble_fraction": plain(run.bubble_fraction),
        "order": [["+".join(map(str, step)) for step in steps] for steps in run.orders],
    }


def schedule_text(name: str, *, pp: int, microbatches: int, virtual_stages: int) -> str:
    """A row for each rank: its peak, its idle time and how its order begins."""
    size: dict[str, Any] = {
        "pp": pp,
        "microbatches": microbatches,
        "virtual_stages": virtual_stages,
    }
    peaks, run = schedule.peaks(name, **size), schedule.timeline(name, **size)
    rows = [["rank", "peak", "by chunk", "idle", "order"]]
    for rank, (by_chunk, steps) in enumerate(zip(peaks, run.orders, strict=True)):
        begin = " ".join("+".join(map(str, step)) for step in steps[:8])
        more = " ..." if len(steps) > 8 else ""
        rows.append(
            [
                str(rank),
                str(sum(by_chunk)),
                " + ".join(map(str, by_chunk)),
                f"{run.bubbles[rank]:,}",
                begin + more,
            ]
        )
    return (
        f"{schedule.SCHEDULES[name].title}, {pp} ranks, {microbatches} microbatches: "
        f"bubble {run.bubble:,} of {run.makespan:,} "
        f"({100 * run.bubble_fraction:.1f} %), in units of one chunk's forward\n\n"
        + table(rows, right=(0, 1, 2, 3))
    )
