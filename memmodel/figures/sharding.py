"""Chapter 2, shard what need not be whole: expert parallelism and ZeRO as shifts on one axis."""

from __future__ import annotations

from dataclasses import replace

from memmodel.devices import device
from memmodel.figures.bars import WIDTH, Row, bars_table, factor_text, height, log_bars
from memmodel.figures.counting import GROUPS, NAIVE, state_groups
from memmodel.formats import Number, size_text
from memmodel.ledger import STATES, rank_ledger
from memmodel.plan import Plan
from memmodel.scene import Choice, Figure, Line, Mark, Powers, Rect, Scene, Table, Text

_ZERO = (
    ("0", "0: shard nothing"),
    ("1", "1: optimizer"),
    ("2", "2: + gradients"),
    ("3", "3: + weights"),
)


def lever_sizes(plan: Plan) -> dict[str, dict[str, Number]]:
    """Bytes on one GPU by category and group, without a pipeline."""
    ledger = rank_ledger(plan, 0)
    sizes = {state: state_groups(ledger, state) for state in STATES}
    sizes["activations"] = {"": ledger.totals["activations"]}
    return sizes


def _levers(ep: str, zero: str) -> Scene:
    plan = replace(NAIVE, ep=int(ep), zero=int(zero))
    before, after = lever_sizes(NAIVE), lever_sizes(plan)
    rows = []
    for category, parts in after.items():
        rows.append(
            Row(
                category,
                category,
                category,
                sum(parts.values()),
                sum(before[category].values()),
                head=True,
            )
        )
        if category in STATES:
            rows += [
                Row(
                    f"{category}-{part}",
                    part,
                    f"{category} soft",
                    parts[part],
                    before[category][part],
                )
                for part in GROUPS
            ]
    totals: list[Number] = [
        sum(sum(parts.values()) for parts in sizes.values()) for sizes in (before, after)
    ]
    rows.append(Row("total", "total", "text", totals[1], totals[0], head=True))
    gpu = device(plan.device)
    gap = totals[1] - gpu.nominal_bytes
    status = (
        f"EP {ep}, ZeRO-{zero}: {size_text(totals[1])} on each GPU, "
        f"{size_text(max(gap, -gap))} {'more' if gap > 0 else 'less'} than "
        f"{size_text(gpu.nominal_bytes)}."
    )
    words = ", ".join(
        f"{category} {size_text(sum(parts.values()))}" for category, parts in after.items()
    )
    won = factor_text(totals[0], totals[1])
    return Scene(
        width=WIDTH,
        height=height(len(rows)),
        marks=log_bars(rows, gpu.nominal_bytes, "80 GiB"),
        alt=(
            f"Bars on a logarithmic axis with outlines of the sizes before sharding: {words}; "
            f"the total was {size_text(totals[0])}{f', {won}' if won else ''}. {status}"
        ),
        status=status,
        table=bars_table(rows),
    )


# --- who shares a shard ------------------------------------------------------------------------

_X, _Y, _W, _H = 40.0, 74.0, 600.0, 260.0


def _groups(ep: str, state: str) -> Scene:
    plan = replace(NAIVE, ep=int(ep), zero=1)
    columns, rows = plan.ep, plan.mesh.edp
    wide, high = _W / columns, _H / rows
    experts = state == "experts"
    here = plan.architecture.num_experts // plan.ep
    marks: list[Mark] = [Rect(_X, _Y, _W, _H, "optimizer soft", faint=experts, id="all")]
    if experts:
        marks.append(Rect(_X, _Y, wide, _H, "optimizer", id="group"))
    # Lines closer than 3 units would only darken the grid; every so many of them are drawn then.
    for count, pitch, vertical in ((columns, wide, True), (rows, high, False)):
        step = 1
        while step * pitch < 3:
            step *= 2
        for index in range(0, count + 1, step):
            at = index * pitch
            marks.append(
                Line(_X + at, _Y, _X + at, _Y + _H, "ground")
                if vertical
                else Line(_X, _Y + at, _X + _W, _Y + at, "ground")
            )
    marks.append(Rect(_X, _Y, _W, _H, "axis", filled=False, outline="solid", id="frame"))
    if experts:
        size = f"{rows} GPUs hold the same {here} experts of each layer"
        shard = f"each keeps 1/{rows} of their optimizer states (EDP = {rows})"
    else:
        size = f"all {plan.gpus:,} GPUs hold the same other weights"
        shard = f"each keeps 1/{plan.mesh.dp:,} of their optimizer states (DP = {plan.mesh.dp:,})"
    ledger = rank_ledger(plan, 0)
    groups = state_groups(ledger, "optimizer")
    held = (
        groups["routed experts"]
        if experts
        else (groups["rest of the blocks"] + groups["embedding + head"])
    )
    marks += [
        Text(_X, 24, size, "text", 15, bold=True, id="value-size"),
        Text(_X, 46, f"{shard}: {size_text(held)}", "muted", 13, id="value-shard"),
        Text(
            _X,
            _Y + _H + 22,
            f"{columns} columns: EP = {columns}, each with other experts",
            "muted",
            13,
            id="value-columns",
        ),
        Text(_X + _W, _Y + _H + 22, f"{rows} rows: replicas", "muted", 13, "end", id="value-rows"),
    ]
    status = f"{size}; {shard}: {size_text(held)} on each GPU."
    body = (
        ("routed experts", f"EP = {columns}", f"EDP = {rows}", size_text(groups["routed experts"])),
        (
            "everything else",
            "1",
            f"DP = {plan.mesh.dp}",
            size_text(groups["rest of the blocks"] + groups["embedding + head"]),
        ),
    )
    return Scene(
        width=WIDTH,
        height=_Y + _H + 36,
        marks=tuple(marks),
        alt=f"A grid of {plan.gpus:,} GPUs, {columns} wide and {rows} high. {status}",
        status=status,
        table=Table(("state", "different parts", "replicas of each", "optimizer on a GPU"), body),
    )


FIGURES = {
    figure.name: figure
    for figure in (
        Figure(
            name="levers",
            title="Two levers, without a pipeline",
            knobs=(
                Powers("ep", "Expert parallel (EP)", 1, 256, "64"),
                Choice("zero", "ZeRO stage", _ZERO, "1"),
            ),
            draw=_levers,
            caption="2,048 GPUs, one microbatch of 4,096 tokens each, bf16, nothing recomputed, "
            "2 + 4 + 8 bytes per parameter. Dashed: everything on every GPU.",
        ),
        Figure(
            name="replica-groups",
            title="Who shares a shard",
            knobs=(
                Powers("ep", "Expert parallel (EP)", 1, 256, "64"),
                Choice(
                    "state",
                    "Show the replicas of",
                    (("experts", "routed experts"), ("rest", "everything else")),
                    "experts",
                ),
            ),
            draw=_groups,
            caption="2,048 GPUs, no pipeline: experts are sharded over EDP = 2048 / EP, all else "
            "over DP = 2048. ZeRO-1, 8 optimizer bytes per parameter.",
        ),
    )
}
