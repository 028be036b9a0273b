"""Chapter 4, recompute what is cheap: a block whose operations are saved or replayed by a click."""

from __future__ import annotations

from memmodel.figures import gauges
from memmodel.figures.diagram import ATTENTION, GEMMS, WIDTH, boxes, op_box, slab, wires
from memmodel.figures.gauges import HEIGHT, KINDS, RANK_TOKENS, SCALES, SEQ_LEN, sized
from memmodel.figures.listing import saved_table
from memmodel.figures.marking import (
    BF16,
    CUSTOM,
    MARKED,
    box_flops,
    graph,
    recognise,
    replayed_by,
    setting,
    tensor_below,
)
from memmodel.recompute import POLICIES, Marks, Stash, stash
from memmodel.scene import Choice, Figure, Group, Hidden, Mark, Scene


def _draw(kind: str, scale: str, policy: str, marks: str) -> Scene:
    replayed = replayed_by(policy, marks)
    shown = graph(kind)
    kept = stash(shown, BF16, replayed & frozenset(shown.markable))
    flips = {op: kept.flip(op) for op in shown.markable}
    pointless = kept.pointless
    drawn: list[Mark] = [*wires(kind), *_headings(kind, replayed)]
    groups: dict[str, list[Mark]] = {}
    tensors = {box: tensor_below(kept, box, scale) for box in boxes(kind)}
    for box, below in tensors.items():
        marked = box.op in flips
        sign = ""
        if marked and box.half != "shared":
            sign = "!" if box.op in pointless else "" if flips[box.op] else "±0"
        flops = box_flops(kind, box.op, box.half, False) if box.op in GEMMS else 0
        groups.setdefault(box.op, []).extend(
            op_box(
                box,
                replayed=box.op in kept.replayed if marked else None,
                sign=sign,
                mflop=flops / 1e6,
            )
        )
        if below:
            drawn += slab(
                box, state=below.state, nbytes=below.nbytes, text=below.words, aux=below.statistic
            )
    for name, inside in groups.items():
        drawn.append(_clickable(kind, kept, name, tuple(inside), flips, replayed))
    forward, replay = kept.forward_flops(SEQ_LEN), kept.replay_flops(SEQ_LEN)
    nothing = stash(shown, BF16, frozenset())
    words = gauges.Words(
        gauges.gib_text(kept.bytes_per_token * RANK_TOKENS),
        f"{gauges.gigaflop_text(forward)}, {gauges.bars(forward / 1e6)} bars",
        gauges.replay_text(replay, forward),
    )
    drawn += gauges.gauges(kept, nothing, forward=forward, replay=replay, words=words)
    drawn += gauges.notes(
        ("muted", unpriced(kept)),
        ("warning", "; ".join(pulled_in(kept, name, scale) for name in pointless[:3])),
    )
    name = recognise(kind, replayed)
    share = gauges.percent_text(replay, forward)
    status = (
        f"{'Custom marks' if name == CUSTOM else name}: {kept.bytes_per_token:,} bytes per token "
        f"kept, {words.kept} on {gauges.RANKS[kind]}; {share} of forward replayed."
    )
    warned = f" Pointless: {', '.join(pointless)}." if pointless else ""
    return Scene(
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(drawn),
        alt=(
            f"The operations of one {dict(KINDS)[kind]} block, attention on the left, FFN on the "
            f"right, each saved or replayed. Replayed: "
            f"{', '.join(op for op in shown.markable if op in replayed) or 'nothing'}. "
            f"{status}{warned}"
        ),
        status=status + warned,
        table=saved_table(kept, tensors, flips, scale, words),
        resolved={"policy": name},
    )


def _clickable(
    kind: str,
    kept: Stash,
    op: str,
    inside: tuple[Mark, ...],
    flips: dict[str, int],
    replayed: Marks,
) -> Group:
    if op not in flips:
        return Group(f"op-{op}", inside)
    now = op in kept.replayed
    sets = setting(kind, replayed ^ {op})
    change = flips[op]
    effect = (
        "moves no byte"
        if not change
        else (f"{'adds' if change > 0 else 'frees'} {sized(abs(change), 'token')} per token")
    )
    return Group(
        id=f"op-{op}",
        marks=inside,
        knob=sets[0][0],
        value=sets[0][1],
        also=sets[1:],
        label=f"{op}: replay it in backward ({'saving' if now else 'that'} {effect})",
        pressed=now,
    )


def _headings(kind: str, replayed: Marks) -> list[Mark]:
    shown = frozenset(graph(kind).markable)
    ffn = "MoE FFN" if kind == "moe" else "Dense FFN"
    drawn: list[Mark] = []
    for region, words, left, right, ops in (
        ("attention", "Attention", 22.0, 314.0, frozenset(ATTENTION)),
        ("ffn", ffn, 354.0, 656.0, frozenset(MARKED) - frozenset(ATTENTION)),
    ):
        for at, wide, verb, after in (
            (right, 78.0, "replay all", replayed | ops),
            (right - 84, 66.0, "save all", replayed - ops),
        ):
            drawn.append(
                gauges.button(
                    f"{verb} {region}",
                    at,
                    wide,
                    verb,
                    label=f"{words}: {verb}",
                    pressed=not (after ^ replayed) & shown,
                    sets=setting(kind, after),
                )
            )
        drawn.append(gauges.heading(words, left))
    drawn += gauges.legend((("kept", 354, 56), ("anchor", 354, 76), ("replayed", 536, 56)))
    return drawn


def unpriced(kept: Stash) -> str:
    """What is replayed and has no FLOPs in this model: it still costs time."""
    adds = [op.name for op in kept.block.ops if op.kind == "add" and op.name in kept.replayed]
    sends = kept.replayed_communication
    words = [
        f"{name}{'s' if len(ops) > 1 else ''} {' and '.join(ops)}"
        for name, ops in (("all-to-all", sends), ("addition", adds))
        if ops
    ]
    return f"Replayed but not priced: {', '.join(words)}." if words else ""


def pulled_in(kept: Stash, op: str, scale: str) -> str:
    """What a pointless replay keeps in memory that saving the operation would not."""
    saved = stash(kept.block, kept.recipe, kept.replayed - {op}, kept.dual_stash)
    pulled = [
        f"{name} ({sized(size, scale)})"
        for name, size in kept.tensors.items()
        if name not in saved.tensors
    ]
    keeps = f": its replay keeps {', '.join(pulled)}" if pulled else ""
    return f"{op} is replayed, but nothing reads it{keeps}"


FIGURES = {
    "recompute-diagram": Figure(
        name="recompute-diagram",
        title="Save or recompute",
        knobs=(
            Choice(
                "policy",
                "Policy",
                (*((name, name) for name in POLICIES), (CUSTOM, "custom")),
                "dsv3",
                hint="A name is shown only while every mark agrees with it.",
            ),
            Choice("kind", "Block", KINDS, "moe"),
            Choice("scale", "Sizes of", SCALES, "rank"),
            Hidden(
                "marks",
                "Marks",
                ("", "0" * len(MARKED), "01" * 9 + "1", "001" * 6 + "0"),
                pattern=f"[01]{{{len(MARKED)}}}",
            ),
        ),
        draw=_draw,
        caption="DeepSeek-V3 in bf16, fused kernels. An interior rank: 17 stashes of 4 layers, "
        "4,096 tokens each. One bar is 10 MFLOP per token. a2a: all-to-all; rstd and lse are fp32 "
        "statistics.",
    ),
}
