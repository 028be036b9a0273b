"""Chapter 5, store it in fewer bits: the same block, the format of each GEMM chosen by a click."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from memmodel.configs import load
from memmodel.figures import gauges
from memmodel.figures.diagram import GEMMS, WIDTH, Box, boxes, op_box, slab, wires
from memmodel.figures.gauges import HEIGHT, KINDS, RANK_TOKENS, SCALES, SEQ_LEN
from memmodel.figures.listing import stored_table
from memmodel.figures.marking import (
    BF16,
    CUSTOM,
    box_flops,
    graph,
    half_of,
    is_fast,
    tensor_below,
)
from memmodel.figures.marking import PRESETS as POLICY_MARKS
from memmodel.formats import (
    FP8_WEIGHT_BYTES,
    RECIPES,
    SITES,
    Recipe,
    recipe,
    size_text,
)
from memmodel.recompute import POLICIES, Stash, stash
from memmodel.scene import Choice, Figure, Group, Hidden, Mark, Scene, Switch

# Formats as text: one letter for each site of `formats.SITES`.
LETTERS = {"bf16": "b", "e4m3": "4", "e5m6": "5", "mxfp8": "m"}
NAMES = {letter: name for name, letter in LETTERS.items()}
PINNED = ("router",)
# An op whose saved input has a format of its own although no GEMM reads it.
STORAGE = {"swiglu": "swiglu_in"}
SITE = {**{op: op for op in GEMMS}, **STORAGE}
# Parameters of the blocks of an interior rank are 8 MoE layers with 4 experts each of 256.
RANK_LAYERS, EP = 8, 64


def formats_text(of: Recipe) -> str:
    """A recipe as text, in the order of SITES."""
    return "".join(LETTERS[of.at(site).name] for site in SITES)


PRESETS = {formats_text(found): name for name, found in RECIPES.items()}


@lru_cache(maxsize=512)
def recipe_of(text: str) -> Recipe:
    """The recipe that a text stands for.

    MXFP8 down-projections keep their input twice, as in the recipe that brings them.

    >>> recipe_of("b44b5b444").at("o_proj").name
    'e5m6'
    """
    base = "nv-mxfp8" if text[0] == LETTERS["mxfp8"] else "bf16"
    sites = {site: NAMES[letter] for site, letter in zip(SITES, text, strict=True)}
    return recipe(base, sites)


def cycled(text: str, site: str) -> str:
    """The formats after a click on a site: bf16, e4m3 (then e5m6 at o_proj), and again."""
    at = SITES.index(site)
    order = ("b", "4", "5", "b") if site == "o_proj" else ("b", "4", "b")
    after = dict(pairwise(order)).get(text[at], "b")
    return text[:at] + after + text[at + 1 :]


def setting(text: str) -> tuple[tuple[str, str], ...]:
    """The knobs that put these formats in force."""
    name = PRESETS.get(text, CUSTOM)
    return (("recipe", name), *((("formats", text),) if name == CUSTOM else ()))


@lru_cache(maxsize=1)
def rank_parameters() -> int:
    """Block parameters of an interior rank (compared with the ledger in a test)."""
    arch = load("deepseek-v3")
    routed = arch.num_experts * 3 * arch.hidden_size * arch.moe_intermediate_size
    return RANK_LAYERS * (arch.layer_parameters("moe") - routed + routed // EP)


def _draw(
    kind: str, scale: str, policy: str, recipe: str, formats: str, dual: str, fp8_params: str
) -> Scene:
    text = (
        (formats or formats_text(RECIPES["dsv3-fp8"]))
        if recipe == CUSTOM
        else formats_text(RECIPES[recipe])
    )
    chosen = recipe_of(text)
    shown = graph(kind)
    replayed = POLICY_MARKS[policy] & frozenset(shown.markable)
    kept = stash(shown, chosen, replayed, dual == "on")
    before = stash(shown, BF16, replayed)
    drawn: list[Mark] = [*wires(kind), *_headings(kind)]
    groups: dict[str, list[Mark]] = {}
    tensors = {box: tensor_below(kept, box, scale) for box in boxes(kind)}
    chips: dict[Box, str] = {}
    for box, below in tensors.items():
        op = shown.by_name[box.op]
        site = SITE.get(box.op, "")
        chips[box] = chosen.at(site).name if site else ""
        flops = box_flops(kind, op.name, box.half, is_fast(op, chosen)) if op.name in GEMMS else 0
        groups.setdefault(box.op, []).extend(
            op_box(
                box,
                replayed=box.op in replayed if box.op in shown.markable else None,
                mflop=flops / 1e6,
                chip=chips[box],
                note="input" if box.op in STORAGE else "fixed" if site in PINNED else "",
            )
        )
        if below:
            was = half_of(op, box.half, before.tensors.get(op.name, 0))
            drawn += slab(
                # what only a replay reads is kept all the same: hatches are orientations here
                box,
                state="kept" if below.state == "anchor" else below.state,
                nbytes=below.nbytes,
                text=below.words,
                aux=below.statistic,
                role=chosen.at(op.stored).name,
                before=was if was != below.nbytes else 0,
                dual=op.name in kept.dual,
            )
    for name, inside in groups.items():
        drawn.append(_clickable(name, tuple(inside), text))
    forward, replay = kept.forward_cost(SEQ_LEN), kept.replay_cost(SEQ_LEN)
    words = gauges.Words(
        gauges.gib_text(kept.bytes_per_token * RANK_TOKENS),
        f"{gauges.bars(forward / 1e6)} bars, "
        f"{gauges.bars(before.forward_flops(SEQ_LEN) / 1e6)} in bf16",
        gauges.replay_text(replay, forward),
    )
    drawn += gauges.gauges(kept, before, forward=forward, replay=replay, words=words)
    traffic, weights = traffic_text(kept), weights_text(fp8_params == "on")
    drawn += gauges.notes(("text", traffic), ("muted", weights))
    name = PRESETS.get(text, CUSTOM)
    bf16 = gauges.gib_text(before.bytes_per_token * RANK_TOKENS)
    status = (
        f"{'Custom formats' if name == CUSTOM else name}: {kept.bytes_per_token:,} bytes per token "
        f"kept, {words.kept} on {gauges.RANKS[kind]} ({bf16} in bf16); forward costs "
        f"{gauges.bars(forward / 1e6)} bars."
    )
    return Scene(
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(drawn),
        alt=(
            f"The operations of one {dict(KINDS)[kind]} block with the format of each GEMM: "
            + ", ".join(f"{site} {chosen.at(site).name}" for site in SITES)
            + f". {status} {traffic} {weights}"
        ),
        status=status,
        table=stored_table(kept, before, tensors, chips, scale, words),
        resolved={"recipe": name},
    )


def _clickable(op: str, inside: tuple[Mark, ...], text: str) -> Group:
    site = SITE.get(op, "")
    if not site or site in PINNED:
        return Group(f"op-{op}", inside)
    after = cycled(text, site)
    sets = setting(after)
    now, then = (NAMES[formats[SITES.index(site)]] for formats in (text, after))
    return Group(
        id=f"op-{op}",
        marks=inside,
        knob=sets[0][0],
        value=sets[0][1],
        also=sets[1:],
        label=f"{op}: {'input stored in' if op in STORAGE else ''} {now}; change to {then}",
    )


def _headings(kind: str) -> list[Mark]:
    ffn = "MoE FFN" if kind == "moe" else "Dense FFN"
    return [
        gauges.heading("Attention", 22.0),
        gauges.heading(ffn, 354.0),
        *gauges.legend((("before", 354, 56), ("dual", 354, 76), ("replayed", 536, 56))),
    ]


def traffic_bytes(kept: Stash) -> tuple[int, int]:
    """(written more in forward, read and written in backward) per token, for the transposes.

    A second orientation is one more write of each tensor that has it. Without one, backward reads
    each kept e4m3 tensor that a GEMM needs transposed, and writes it again.
    """
    both = stash(kept.block, kept.recipe, kept.replayed, dual_stash=True)
    once = {name: both.tensors[name] // 2 for name in both.dual}
    twice = {name: once[name] for name in kept.dual}
    return sum(twice.values()), 2 * sum(size for name, size in once.items() if name not in twice)


def traffic_text(kept: Stash) -> str:
    """The price of the layout that Hopper asks for, in bytes of one layer and microbatch."""
    forward, backward = (size * SEQ_LEN for size in traffic_bytes(kept))
    if forward:
        return (
            f"Both orientations: forward writes {size_text(forward)} more per layer and microbatch."
        )
    if backward:
        return (
            f"To requantise, backward reads and writes {size_text(backward)} per layer and "
            "microbatch."
        )
    return "No kept e4m3 tensor needs a transpose."


def weights_text(resident: bool) -> str:
    """Block weights of an interior rank: bf16, or e4m3 in both orientations with scales."""
    bf16, fp8 = 2 * rank_parameters(), int(FP8_WEIGHT_BYTES * rank_parameters())
    if resident:
        return (
            f"Weights of the rank's blocks: {gauges.gib_text(fp8)} in e4m3 at 2.0625 B, "
            f"{gauges.gib_text(fp8 - bf16)} more than in bf16."
        )
    return f"Weights of the rank's blocks: {gauges.gib_text(bf16)} in bf16 at 2 B."


FIGURES = {
    "precision-diagram": Figure(
        name="precision-diagram",
        title="Which format",
        knobs=(
            Choice(
                "recipe",
                "Recipe",
                (*((name, name) for name in RECIPES), (CUSTOM, "custom")),
                "dsv3-fp8",
                hint="A name is shown only while every format agrees with it.",
            ),
            Choice("policy", "Policy", tuple((name, name) for name in POLICIES), "dsv3"),
            Choice("kind", "Block", KINDS, "moe"),
            Choice("scale", "Sizes of", SCALES, "rank"),
            Switch("dual", "Keep e4m3 inputs in both orientations"),
            Switch("fp8_params", "Keep weights in e4m3"),
            Hidden(
                "formats",
                "Formats",
                ("", "b" * 9, "bb4b4bb44", "mmmm5bmm4"),
                pattern="[b4m]{4}[b45m]b[b4m]{3}",
            ),
        ),
        draw=_draw,
        caption="DeepSeek-V3 on Hopper: a GEMM's format is also that of its saved input; router "
        "state and statistics are fp32; e4m3 carries an fp32 scale per 128 elements, e5m6 is "
        "packed. An fp8 GEMM counts half.",
    ),
}
