"""Groups, what must divide and in which order it is said, and how layers fall into chunks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memmodel.configs import load
from memmodel.mesh import PLACEMENTS, Chunk, Mesh, num_stages, split_layers, stage_map
from memmodel.plan import Plan
from memmodel.schedule import SCHEDULES

DSV3 = load("deepseek-v3")
MESH = Mesh(gpus=2048, tp=1, cp=1, pp=8, ep=64, etp=1, zero=1)


def test_groups_of_the_default_plan() -> None:
    assert (MESH.dp, MESH.edp) == (256, 4)


@given(
    tp=st.integers(1, 9),
    cp=st.integers(1, 9),
    pp=st.integers(1, 9),
    ep=st.integers(1, 9),
    etp=st.integers(1, 9),
    times=st.integers(1, 9),
)
def test_groups_multiply_to_all_gpus(
    tp: int, cp: int, pp: int, ep: int, etp: int, times: int
) -> None:
    # GPUs = TP * CP * PP * DP; EDP = GPUs / (PP * EP * ETP).
    gpus = tp * cp * pp * ep * etp * times
    mesh = Mesh(gpus=gpus, tp=tp, cp=cp, pp=pp, ep=ep, etp=etp, zero=1)
    assert mesh.tp * mesh.cp * mesh.pp * mesh.dp == gpus
    assert mesh.pp * mesh.ep * mesh.etp * mesh.edp == gpus


# What must divide: one breach of each rule, in their order.
BREACHES: list[tuple[dict[str, int], str]] = [
    ({"gpus": 2049}, "tp*cp*pp = 1*1*8 must divide gpus, and 2049 / 8 is not whole"),
    ({"tp": 3}, "tp = 3 must divide num_attention_heads"),  # 128
    ({"tp": 64 * 3}, "tp = 192 must divide num_attention_heads"),
    ({"ep": 48}, "ep = 48 must divide the number of routed experts"),
    ({"etp": 3}, "etp = 3 must divide moe_intermediate_size"),
    ({"ep": 256, "etp": 2}, "ep*etp = 256*2 must divide gpus/pp, and 256 / 512 is not whole"),
    ({"seq_len": 4097, "cp": 2}, "tp*cp = 1*2 must divide seq_len, and 4097 / 2 is not whole"),
]


def complaint(changes: dict[str, int]) -> str:
    with pytest.raises(ValueError, match="must divide") as caught:
        Plan(**changes)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(("changes", "words"), BREACHES)
def test_each_rule_is_said_with_its_numbers(changes: dict[str, int], words: str) -> None:
    if changes.get("tp", 1) % 3 == 0:
        changes = changes | {"gpus": 2048 * 3, "seq_len": 4096 * 3}
    assert words in complaint(changes)


# All rules broken at once; then the first is mended, and so on down to the last.
ALL_BROKEN = {
    "gpus": 2049,
    "tp": 5,
    "cp": 7,
    "pp": 1,
    "schedule": "single",
    "ep": 48,
    "etp": 3,
    "seq_len": 4097,
}
MENDED = [
    ({}, "must divide gpus"),
    ({"gpus": 35}, "must divide num_attention_heads"),
    ({"gpus": 7, "tp": 1}, "ep = 48 must divide the number of routed experts"),
    ({"gpus": 7, "tp": 1, "ep": 4}, "etp = 3 must divide moe_intermediate_size"),
    ({"gpus": 7, "tp": 1, "ep": 4, "etp": 2}, "ep*etp = 4*2 must divide gpus/pp"),
    ({"gpus": 56, "tp": 1, "ep": 4, "etp": 2}, "tp*cp = 1*7 must divide seq_len"),
]


@pytest.mark.parametrize(("changes", "words"), MENDED)
def test_of_several_broken_rules_the_first_in_order_is_named(
    changes: dict[str, int], words: str
) -> None:
    assert words in complaint(ALL_BROKEN | changes)  # type: ignore[arg-type]


def test_ffn_widths_are_checked_after_heads_and_before_experts() -> None:
    # DeepSeek-V3's widths have every divisor of its heads: narrower ones are needed to see these.
    narrow = replace(DSV3, intermediate_size=18432 + 2, moe_intermediate_size=2048 + 2)
    mesh = replace(MESH, tp=4, ep=48, etp=4)
    with pytest.raises(ValueError, match="tp = 4 must divide intermediate_size, and 18434 / 4"):
        mesh.check(narrow, 4096)
    narrow = replace(DSV3, moe_intermediate_size=2048 + 2)
    with pytest.raises(ValueError, match="tp = 4 must divide the shared experts' width"):
        mesh.check(narrow, 4096)


def test_zero_shards_one_state_more_per_stage() -> None:
    # ZeRO 1 the optimizer, 2 also gradients, 3 also weights.
    wanted = {0: (0, 0, 0), 1: (0, 0, 1), 2: (0, 1, 1), 3: (1, 1, 1)}
    for zero, states in wanted.items():
        mesh = replace(MESH, zero=zero)
        found = tuple(mesh.sharded(state) for state in ("weights", "gradients", "optimizer"))
        assert found == states


# --- layers --------------------------------------------------------------------------------------


def test_the_v_of_8_ranks() -> None:
    # Rank 0 = layers 0-2 and 59-60 with embedding and head; 1 = 3-6 and 55-58.
    wanted = [((0, 3), (59, 61))] + [
        ((3 + 4 * i, 7 + 4 * i), (55 - 4 * i, 59 - 4 * i)) for i in range(7)
    ]
    found = Plan().chunks_of_rank
    assert [tuple((c.first, c.stop) for c in chunks) for chunks in found] == wanted
    assert wanted[7] == ((27, 31), (31, 35))
    assert [[(c.embedding, c.head) for c in chunks] for chunks in found] == [
        [(True, False), (False, True)]
    ] + 7 * [[(False, False), (False, False)]]
    # Layers per rank: 5, then seven times 8.
    assert [sum(c.num_layers for c in chunks) for chunks in found] == [5] + 7 * [8]


@given(layers=st.integers(1, 200), data=st.data())
def test_no_layer_is_lost_and_the_remainder_is_at_the_front(
    layers: int, data: st.DataObject
) -> None:
    stages = data.draw(st.integers(1, layers + 2))
    split = split_layers(layers, stages)
    assert len(split) == stages
    covered = [layer for chunk in split for layer in range(chunk.first, chunk.stop)]
    assert covered == list(range(layers))
    assert [c.embedding for c in split] == [True] + [False] * (stages - 1)
    assert [c.head for c in split] == [False] * (stages - 1) + [True]
    slots = [c.num_layers + c.embedding + c.head for c in split]
    assert slots == sorted(slots, reverse=True)
    assert max(slots) - min(slots) <= 1
    assert min(slots) >= 1


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("pp", range(1, 64))
def test_61_layers_over_any_pp(name: str, pp: int) -> None:
    """Every layer on exactly one rank (two for dualpipe's two copies), or one clear error."""
    chunks = pp * (2 if name in ("zbv", "dualpipev") else 1)
    if pp == 1:
        chunks = 1
    fields = {"gpus": 64 * pp, "pp": pp, "schedule": name, "microbatches": 2 * pp}
    if chunks > 63:
        with pytest.raises(ValueError, match=f"into {chunks} chunks, .* only 63 slots"):
            Plan(**fields)  # type: ignore[arg-type]
        return
    if name == "dualpipe" and pp % 2 and pp > 1:
        with pytest.raises(ValueError, match="is odd"):
            Plan(**fields)  # type: ignore[arg-type]
        return
    plan = Plan(**fields)  # type: ignore[arg-type]
    held = [chunk for rank in plan.chunks_of_rank for chunk in rank]
    copies = 2 if name == "dualpipe" and pp > 1 else 1
    assert plan.copies == copies
    assert sum(chunk.num_layers for chunk in held) == 61 * copies
    assert sum(chunk.embedding for chunk in held) == sum(chunk.head for chunk in held) == copies
    assert len(set(held)) == chunks


def test_placements() -> None:
    # Interleaved: chunk c on rank c mod PP; V: the second half on rank 2*PP-1-c;
    # bidirectional: rank r holds stages r and PP-1-r.
    assert stage_map("linear", 3) == ((0,), (1,), (2,))
    for rank, stages in enumerate(stage_map("interleaved", 4, 3)):
        assert all(stage % 4 == rank for stage in stages)
        assert len(stages) == 3
    for rank, (first, second) in enumerate(stage_map("v", 8)):
        assert (first, second) == (rank, 15 - rank)
    for rank, stages in enumerate(stage_map("bidirectional", 8)):
        assert stages == (rank, 7 - rank)
    with pytest.raises(ValueError, match="placement 'ring': known are linear, interleaved, v"):
        stage_map("ring", 3)


@given(st.sampled_from(PLACEMENTS), st.integers(1, 20), st.integers(1, 5))
def test_every_stage_has_a_place(placement: str, pp: int, virtual_stages: int) -> None:
    found = [stage for rank in stage_map(placement, pp, virtual_stages) for stage in rank]
    assert set(found) == set(range(num_stages(placement, pp, virtual_stages)))


def test_more_chunks_than_slots_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="into 64 chunks, but 61 layers, embedding and head"):
        split_layers(61, 64)
    for fields in (
        {"pp": 10**9, "gpus": 64 * 10**9, "schedule": "1f1b"},
        {"schedule": "interleaved", "virtual_stages": 10**9, "microbatches": 8},
    ):
        with pytest.raises(ValueError, match="000000 chunks"):
            Plan(**fields)  # type: ignore[arg-type]


def test_slots_at_the_limit() -> None:
    chunks = split_layers(61, 63)
    assert chunks[0] == Chunk(0, 0, embedding=True)
    assert chunks[1] == Chunk(0, 1)
    assert chunks[62] == Chunk(61, 61, head=True)
    assert split_layers(61, 1) == (Chunk(0, 61, embedding=True, head=True),)
