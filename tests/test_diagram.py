"""The block's diagram: its numbers against the ledger, its geometry, and what a click does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest
from geometry import by_id, check_scene

from memmodel.figures import get
from memmodel.figures.diagram import (
    BAR_PITCH,
    UNITS_PER_KIB,
    boxes,
    comb,
    wires,
)
from memmodel.figures.gauges import LAYERS, RANK_TOKENS, SEQ_LEN, STASHES, UNITS_PER_GIB
from memmodel.figures.marking import (
    BF16,
    MARKED,
    PRESETS,
    graph,
    marks_of,
    marks_text,
    recognise,
)
from memmodel.figures.precision import (
    LETTERS,
    NAMES,
    cycled,
    formats_text,
    rank_parameters,
    recipe_of,
    traffic_bytes,
)
from memmodel.formats import RECIPES, SITES
from memmodel.ledger import rank_ledger
from memmodel.plan import Plan
from memmodel.recompute import stash
from memmodel.scene import Group, Path, Rect, Scene, Text, flatten

RECOMPUTE, PRECISION = get("recompute-diagram"), get("precision-diagram")
INTERIOR = 3  # a rank of four MoE layers in each of two chunks


def words(scene: Scene, name: str) -> str:
    mark = by_id(scene, name)
    assert isinstance(mark, Text)
    return mark.text


def group(scene: Scene, name: str) -> Group:
    mark = by_id(scene, name)
    assert isinstance(mark, Group)
    return mark


def texts(mark: Group) -> set[str]:
    return {inner.text for inner in flatten(mark.marks) if isinstance(inner, Text)}


def marked(*ops: str) -> dict[str, str]:
    return {"policy": "custom", "marks": marks_text(frozenset(ops))}


def column(scene: Scene, title: str) -> dict[str, str]:
    """One column of the table, by the first."""
    at = scene.table.columns.index(title)
    return {row[0]: row[at] for row in scene.table.rows}


def number(cell: str) -> int:
    return int(cell.replace(",", ""))


def total_bytes(scene: Scene) -> int:
    """Bytes per token in the table's sum."""
    return number(column(scene, "bytes kept per token")["sum"])


def count_bars(scene: Scene, role: str, inside: Group | None = None) -> float:
    """Bars of a role, the last of each comb as a fraction; of the boxes unless told otherwise."""
    marks = (
        flatten(inside.marks)
        if inside
        else (mark for g in scene.marks if isinstance(g, Group) for mark in flatten(g.marks))
    )
    found = 0.0
    for mark in marks:
        if isinstance(mark, Path) and mark.closed and mark.role == role:
            base = mark.points[0][1]
            heights = [base - mark.points[at + 1][1] for at in range(0, len(mark.points), 4)]
            found += len(heights) - 1 + heights[-1] / 8
    return found


# --- the numbers that the chapters tell ------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "total", "replayed"),
    [
        ({"policy": "none"}, "118.64 GiB", "0 %"),
        ({"policy": "dsv3"}, "66.57 GiB", "8.17 %"),
        ({"policy": "attn-replay"}, None, "40.5 %"),
        ({"policy": "full"}, "3.72 GiB", "100 %"),
        (marked("q_norm"), "117.84 GiB", "under 0.01 %"),
    ],
)
def test_policies(state: dict[str, str], total: str | None, replayed: str) -> None:
    scene = RECOMPUTE.scene(**state)
    assert words(scene, "value-replay").split(",")[0] == replayed
    if total:
        assert words(scene, "value-total") == total


@pytest.mark.parametrize(
    ("state", "total"),
    [
        ({"recipe": "bf16", "policy": "none"}, "118.64 GiB"),
        ({"recipe": "bf16"}, "66.57 GiB"),
        ({}, "40.77 GiB"),
        ({"recipe": "custom", "formats": "444bbb444"}, "42.90 GiB"),
    ],
)
def test_recipes(state: dict[str, str], total: str) -> None:
    assert words(PRECISION.scene(**state), "value-total") == total


def test_attention_output_in_twelve_bits() -> None:
    assert words(PRECISION.scene(), "value-attn") == "6.4 GiB"


def test_forward_is_134_bars_and_76_in_the_published_recipe() -> None:
    assert words(RECOMPUTE.scene(), "value-forward") == "1.34 GFLOP, 134 bars"
    assert words(PRECISION.scene(), "value-forward") == "76 bars, 134 in bf16"
    # norms, RoPE and SwiGLU have no bars of their own: under a tenth of a bar in all
    assert count_bars(RECOMPUTE.scene(), "text") == pytest.approx(133.87, abs=0.1)
    assert count_bars(PRECISION.scene(), "text") == pytest.approx(75.5, abs=0.1)


def test_bars_of_routed_experts_count_eight_times() -> None:
    scene = RECOMPUTE.scene()
    assert count_bars(scene, "text", group(scene, "op-gate_up")) == pytest.approx(52.85, abs=0.01)
    halves = [m for m in flatten(group(scene, "op-gate_up").marks) if isinstance(m, Path)]
    assert [len(half.points) // 4 for half in halves] == [47, 6]


def test_full_replays_every_bar() -> None:
    scene = RECOMPUTE.scene(policy="full")
    assert count_bars(scene, "recompute") == count_bars(scene, "text")


# --- warnings ------------------------------------------------------------------------------------


def test_replaying_the_last_addition_costs_memory_and_wears_the_warning() -> None:
    scene = RECOMPUTE.scene(**marked("moe_add"), scale="token")
    assert total_bytes(scene) - total_bytes(RECOMPUTE.scene(policy="none")) == 14336
    assert "!" in texts(group(scene, "op-moe_add"))
    assert "its replay keeps combine (14.0 KiB)" in words(scene, "value-note-1")


def test_replaying_x1_alone_moves_no_byte_and_wears_the_neutral_sign() -> None:
    saved, replayed = RECOMPUTE.scene(policy="none"), RECOMPUTE.scene(**marked("x1"))
    assert total_bytes(saved) == total_bytes(replayed)
    for scene in (saved, replayed):
        assert "±0" in texts(group(scene, "op-x1"))
    assert isinstance(by_id(saved, "slab-x1"), Rect)
    assert isinstance(by_id(replayed, "slab-o_proj"), Rect)  # kept in its stead


@pytest.mark.parametrize("op", ["rope_q", "rope_kv"])
def test_replaying_rope_moves_no_byte(op: str) -> None:
    assert total_bytes(RECOMPUTE.scene(policy="none")) == total_bytes(RECOMPUTE.scene(**marked(op)))


def test_what_only_a_replay_reads_is_hatched() -> None:
    scene = RECOMPUTE.scene(**marked("rope_q"))
    anchor, kept = by_id(scene, "slab-q_up"), by_id(scene, "slab-x0")
    assert isinstance(anchor, Rect)
    assert isinstance(kept, Rect)
    assert anchor.hatch
    assert not kept.hatch
    by_id(scene, "replayed-rope_q")


def test_what_has_no_flops_is_named() -> None:
    note = words(RECOMPUTE.scene(policy="full"), "value-note-0")
    assert note == (
        "Replayed but not priced: all-to-alls dispatch and combine, additions x1 and moe_add."
    )


# --- marks and presets ----------------------------------------------------------------------------


def test_every_preset_recognises_itself() -> None:
    for kind in ("moe", "dense"):
        for name, replayed in PRESETS.items():
            assert recognise(kind, replayed) == name
            scene = RECOMPUTE.scene(kind=kind, policy="custom", marks=marks_text(replayed))
            assert scene.resolved == {"policy": name}
    for text, name in ((formats_text(found), name) for name, found in RECIPES.items()):
        assert PRECISION.scene(recipe="custom", formats=text).resolved == {"recipe": name}
        assert recipe_of(text).formats == RECIPES[name].formats


def test_a_click_flips_one_mark_lands_on_custom_and_back() -> None:
    before = RECOMPUTE.scene()
    for op in MARKED:
        clicked = group(before, f"op-{op}").sets
        if op == "gate_up":  # the one click that lands on another preset
            assert clicked == {"policy": "selective"}
            continue
        assert clicked["policy"] == "custom"
        assert marks_of(clicked["marks"]) == PRESETS["dsv3"] ^ {op}
        after = RECOMPUTE.scene(**clicked)
        assert after.resolved == {"policy": "custom"}
        assert group(after, f"op-{op}").pressed is not group(before, f"op-{op}").pressed
        # back on the preset; the edited marks stay remembered under "custom"
        assert group(after, f"op-{op}").sets == {"policy": "dsv3"}


def test_region_buttons() -> None:
    state = dict(RECOMPUTE.defaults())
    for name in ("replay-all-attention", "replay-all-ffn"):
        state |= group(RECOMPUTE.scene(**state), name).sets
    assert state["policy"] == "full"
    for name in ("save-all-attention", "save-all-ffn"):
        state |= group(RECOMPUTE.scene(**state), name).sets
    assert state["policy"] == "none"


def test_a_click_cycles_formats_and_the_router_is_pinned() -> None:
    assert cycled("b" * 9, "q_up") == "b4bbbbbbb"
    text = "b" * 9
    for expected in ("e4m3", "e5m6", "bf16"):
        text = cycled(text, "o_proj")
        assert recipe_of(text).at("o_proj").name == expected
    scene = PRECISION.scene()
    assert not group(scene, "op-router").knob
    for op in ("q_up", "gate_up", "swiglu", "o_proj"):
        PRECISION.scene(**group(scene, f"op-{op}").sets)


# --- every state ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_random_marks_equal_the_ledger() -> None:
    random = Random(4)
    for _ in range(700):
        ops = [op for op in MARKED if random.random() < random.random()]
        scene = RECOMPUTE.scene(**marked(*ops))
        plan = Plan(recipe="bf16", recompute="none", replay=tuple(ops))
        activations = rank_ledger(plan, INTERIOR).totals["activations"]
        assert activations == total_bytes(scene) * RANK_TOKENS
        bar = by_id(scene, "bar-total")
        assert isinstance(bar, Rect)
        assert bar.width == pytest.approx(float(activations) / 2**30 * UNITS_PER_GIB)
        slabs = sum(
            mark.width
            for mark in flatten(scene.marks)
            if isinstance(mark, Rect) and mark.id.startswith("slab-") and mark.width > 2
        )
        kept = stash(graph("moe"), BF16, frozenset(ops)).tensors
        drawn = sum(size for name, size in kept.items() if name in graph("moe").by_name)
        # the router's state is too little to be seen, so it is drawn a little wider than it is
        assert slabs == pytest.approx(drawn * UNITS_PER_KIB / 1024, abs=6)


@pytest.mark.slow
def test_random_formats_equal_the_ledger() -> None:
    random = Random(5)
    for _ in range(1000):
        text = "".join(
            "b" if site == "router" else random.choice("b45m" if site == "o_proj" else "b4m")
            for site in SITES
        )
        policy, dual = random.choice(tuple(PRESETS)), random.choice(("on", "off"))
        scene = PRECISION.scene(recipe="custom", formats=text, policy=policy, dual=dual)
        plan = Plan(
            recipe="nv-mxfp8" if text[0] == "m" else "bf16",
            recompute=policy,
            formats=tuple((s, NAMES[letter]) for s, letter in zip(SITES, text, strict=True)),
            dual_stash=dual == "on",
        )
        activations = rank_ledger(plan, INTERIOR).totals["activations"]
        assert activations == total_bytes(scene) * RANK_TOKENS


@pytest.mark.slow
def random_scenes(kind: str, count: int) -> Iterator[Scene]:
    """Both diagrams in random states."""
    random = Random(6)
    for _ in range(count):
        scale, share = random.choice(("token", "rank")), random.random()
        ops = [op for op in MARKED if random.random() < share]
        yield RECOMPUTE.scene(kind=kind, scale=scale, **marked(*ops))
        text = "".join("b" if s == "router" else random.choice("b4m") for s in SITES)
        yield PRECISION.scene(
            kind=kind,
            scale=scale,
            recipe="custom",
            formats=text,
            policy=random.choice(tuple(PRESETS)),
            dual=random.choice(("on", "off")),
        )


@pytest.mark.parametrize("kind", ["moe", "dense"])
def test_the_table_says_all_that_is_drawn_and_adds_up(kind: str) -> None:
    for scene in random_scenes(kind, 100):
        cells = {cell for row in scene.table.rows for cell in row}
        for mark in flatten(scene.marks):
            if isinstance(mark, Text) and mark.id.startswith("value-"):
                assert mark.text in cells or mark.id.startswith("value-note-"), mark
        for title in scene.table.columns:
            if "bytes" in title or "FLOPs" in title or title in ("in bf16", "replayed"):
                *rows, total, _ = column(scene, title).values()
                assert sum(map(number, rows)) == number(total), title


def test_the_table_says_what_becomes_of_every_output() -> None:
    output = column(RECOMPUTE.scene(**marked("rope_q", "moe_add")), "output")
    assert output["rope_q"] == "replayed"
    assert output["q_up"] == "kept for a replay only"
    assert output["moe_add"] == "replayed, pointless"
    assert output["ffn_down, routed"] == "not kept"
    assert output["x0"] == "kept"
    scene = PRECISION.scene(dual="on")
    assert column(scene, "stored in")["attn"] == column(scene, "format")["o_proj"] == "e5m6"
    twice = column(scene, "both orientations")
    assert [name for name, cell in twice.items() if cell] == ["dispatch"]


@pytest.mark.parametrize("kind", ["moe", "dense"])
def test_no_text_collides_in_random_states(kind: str) -> None:
    for scene in random_scenes(kind, 30):
        check_scene(scene)


@pytest.mark.parametrize("kind", ["moe", "dense"])
def test_wires_end_at_boxes_and_run_through_none(kind: str) -> None:
    places = boxes(kind)
    ends = set()
    for wire in (mark for mark in wires(kind) if isinstance(mark, Path)):
        x, y = wire.points[-1]
        assert wire.arrow
        assert any(
            (y in (box.y, box.bottom) and box.left <= x <= box.right)
            or (x in (box.left, box.right) and box.y <= y <= box.bottom)
            for box in places
        ), f"an arrow ends nowhere: {wire}"
        ends.add((x, y))
        for (x1, y1), (x2, y2) in pairwise(wire.points):
            assert x1 == x2 or y1 == y2, f"not upright: {wire}"
            for box in places:
                through = (
                    min(x1, x2) < box.right
                    and max(x1, x2) > box.left
                    and min(y1, y2) < box.bottom
                    and max(y1, y2) > box.y
                )
                assert not through, f"{wire} runs through {box}"
    assert len(ends) == sum(1 for mark in wires(kind) if isinstance(mark, Path)), "arrows meet"


def test_the_rank_that_is_drawn_is_the_ledgers() -> None:
    ledger = rank_ledger(Plan(), INTERIOR)
    assert sum(ledger.stashes) == STASHES
    assert {chunk.num_layers for chunk in ledger.chunks} == {LAYERS}
    assert ledger.totals["weights"] == 2 * rank_parameters()
    fp8 = rank_ledger(Plan(fp8_params=True), INTERIOR).totals["weights"]
    assert fp8 == 2.0625 * rank_parameters()
    assert Plan().seq_len == SEQ_LEN


def test_transposes_cost_traffic() -> None:
    moe = graph("moe")
    once = stash(moe, RECIPES["dsv3-fp8"], PRESETS["dsv3"])
    both = stash(moe, RECIPES["dsv3-fp8"], PRESETS["dsv3"], dual_stash=True)
    dispatch = 8 * 7392
    assert once.tensors["dispatch"] == dispatch
    assert traffic_bytes(once) == (0, 2 * dispatch)
    assert traffic_bytes(both) == (dispatch, 0)
    assert traffic_bytes(stash(moe, BF16, PRESETS["dsv3"])) == (0, 0)
    assert both.bytes_per_token - once.bytes_per_token == dispatch


def test_letters_name_every_format_that_a_site_may_have() -> None:
    assert set(LETTERS.values()) == set(NAMES)
    assert len(formats_text(RECIPES["bf16"])) == len(SITES)


def test_a_comb_of_bars() -> None:
    (bars,) = comb(10, 20, 25.0, "text")
    assert isinstance(bars, Path)
    assert len(bars.points) == 3 * 4
    assert [bars.points[at][0] - 10 for at in (0, 4, 8)] == pytest.approx(
        [0, BAR_PITCH, 2 * BAR_PITCH]
    )
    assert [20 + 8 - bars.points[at][1] for at in (1, 5, 9)] == [8, 8, 4]
    assert comb(10, 20, 0.0, "text") == ()
