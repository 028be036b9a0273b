"""Every policy of a block: priced as the accounting prices it, and the front of all of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bruteforce import Shape
from cli import Output, answer, mistake
from hypothesis import given, settings
from hypothesis import strategies as st

from memmodel import planner
from memmodel.__main__ import main
from memmodel.configs import from_config, load
from memmodel.formats import RECIPES, SITES, recipe
from memmodel.frontiers import Frontier, Point, free_marks, frontier, lower_hull, pareto, terms
from memmodel.graph import Block, block
from memmodel.recompute import POLICIES, stash
from memmodel.report_frontier import frontier_text

GOLDEN = Path(__file__).parent / "goldens" / "frontiers.txt"
DSV3 = load("deepseek-v3")
BLOCKS = {kind: block(DSV3, kind) for kind in DSV3.kinds}
ODD = Shape(
    hidden=131,
    heads=3,
    nope=10,
    rope=6,
    v=9,
    q_lora=70,
    kv_lora=33,
    dense_width=257,
    expert_width=45,
    experts=7,
    top=3,
    shared=2,
)
GRAPHS: dict[str, Block] = {
    f"{name} {kind}": block(from_config(name, shape.config()), kind)
    for name, shape in (("dsv3", Shape()), ("odd", ODD), ("no shared", Shape(shared=0)))
    for kind in ("dense", "moe")
}
FORMATS = {
    site: ("bf16", "e4m3", "mxfp8", "e5m6")[: 4 if site == "o_proj" else 3] for site in SITES
}
BLOCK_OPTIONS: dict[str, Any] = {
    "graph": st.sampled_from(sorted(GRAPHS)),
    "name": st.sampled_from(sorted(RECIPES)),
    "formats": st.fixed_dictionaries(
        {}, optional={site: st.sampled_from(known) for site, known in FORMATS.items()}
    ),
    "dual_stash": st.booleans(),
}


def replayed(graph: Block, mask: int) -> frozenset[str]:
    return frozenset(name for i, name in enumerate(graph.markable) if mask >> i & 1)


# --- prices ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(mask=st.integers(0, 2**19 - 1), **BLOCK_OPTIONS)
def test_terms_add_up_to_the_stash(
    graph: str, name: str, formats: dict[str, str], dual_stash: bool, mask: int
) -> None:
    chosen, precision = GRAPHS[graph], recipe(name, formats)
    mask &= 2 ** len(chosen.markable) - 1
    kept = sum(term.nbytes for term in terms(chosen, precision, dual_stash) if term.kept(mask))
    wanted = stash(chosen, precision, replayed(chosen, mask), dual_stash)
    assert kept == wanted.bytes_per_token


@settings(deadline=None, max_examples=12)
@given(
    masks=st.lists(st.integers(0, 2**19 - 1), min_size=20, max_size=20),
    seq_len=st.integers(1, 2**20),
    **BLOCK_OPTIONS,
)
def test_all_policies_are_priced_as_the_accounting_prices_each(
    graph: str,
    name: str,
    formats: dict[str, str],
    dual_stash: bool,
    masks: list[int],
    seq_len: int,
) -> None:
    chosen, precision = GRAPHS[graph], recipe(name, formats)
    policies, kept, flops = planner.price(
        chosen, precision, dual_stash=dual_stash, seq_len=seq_len, replay_communication=True
    )
    assert len(policies) == len(kept) == len(flops) == 2 ** len(chosen.markable)
    assert (policies == np.arange(len(policies))).all()
    for mask in masks:
        at = mask % len(policies)
        wanted = stash(chosen, precision, replayed(chosen, at), dual_stash)
        assert (kept[at], flops[at]) == (wanted.bytes_per_token, wanted.replay_flops(seq_len))


@pytest.mark.slow
@pytest.mark.parametrize("dual_stash", [False, True])
def test_each_of_the_policies_of_a_dense_block(dual_stash: bool) -> None:
    graph, precision = GRAPHS["odd dense"], RECIPES["all-fp8"]
    policies, kept, flops = planner.price(graph, precision, dual_stash=dual_stash)
    points = []
    for mask, size, cost in zip(policies.tolist(), kept.tolist(), flops.tolist(), strict=True):
        found = stash(graph, precision, replayed(graph, mask), dual_stash)
        assert (size, cost) == (found.bytes_per_token, found.replay_flops(4096))
        points.append((cost, size))
    # The front, by comparing with the distinct costs of all others.
    distinct = sorted(set(points))
    wanted = [
        point
        for i, point in enumerate(distinct)
        if all(other[1] > point[1] for other in distinct[:i])
    ]
    front = frontier(graph, precision, dual_stash=dual_stash).front
    assert [point[:2] for point in front] == wanted


def test_communication_is_saved_unless_it_may_be_replayed() -> None:
    policies, _, _ = planner.price(BLOCKS["moe"], RECIPES["bf16"])
    communication = sum(
        1 << i for i, name in enumerate(BLOCKS["moe"].markable) if name in ("dispatch", "combine")
    )
    assert len(np.unique(policies)) == len(policies) == 2**17
    assert not (policies & communication).any()
    assert len(free_marks(BLOCKS["dense"])) == len(BLOCKS["dense"].markable) == 15


def test_numbers_beyond_64_bits_are_refused_and_not_wrapped() -> None:
    with pytest.raises(ValueError, match="out of range"):
        planner.price(BLOCKS["moe"], RECIPES["bf16"], seq_len=10**15)


# --- the front ------------------------------------------------------------------------------------


def fronts(graph: Block, **options: Any) -> Frontier:
    """The front of the prices, after the one without prices has been seen to be the same."""
    found = planner.frontier(graph, **options)
    assert found.front == frontier(graph, **options).front
    return found


@pytest.mark.parametrize("dual_stash", [False, True])
@pytest.mark.parametrize("communication", [False, True])
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("kind", BLOCKS)
def test_no_policy_is_missed_and_none_on_the_front_is_beaten(
    kind: str, name: str, communication: bool, dual_stash: bool
) -> None:
    options: dict[str, Any] = {
        "recipe": RECIPES[name],
        "dual_stash": dual_stash,
        "replay_communication": communication,
    }
    found = fronts(BLOCKS[kind], **options)
    for a, b in pairwise(found.front):
        assert a.replay_flops < b.replay_flops
        assert a.bytes_per_token > b.bytes_per_token
    policies, kept, flops = planner.price(BLOCKS[kind], **options)
    assert found.num_policies == len(policies)
    # Every policy replays at least what the last point of the front with less replay does; that
    # point keeps no more.
    front_flops = np.array([point.replay_flops for point in found.front])
    front_kept = np.array([point.bytes_per_token for point in found.front])
    place = np.searchsorted(front_flops, flops, side="right") - 1
    assert place.min() >= 0
    assert (front_kept[place] <= kept).all()
    # Each point is a policy, and costs what it says.
    for point in found.front:
        assert found.allowed(point)
        assert found.point(replayed(BLOCKS[kind], point.replay)) == point


@settings(deadline=None, max_examples=20)
@given(communication=st.booleans(), seq_len=st.integers(1, 2**17), **BLOCK_OPTIONS)
def test_the_front_built_mark_by_mark_is_that_of_all_prices(
    graph: str,
    name: str,
    formats: dict[str, str],
    dual_stash: bool,
    communication: bool,
    seq_len: int,
) -> None:
    fronts(
        GRAPHS[graph],
        recipe=recipe(name, formats),
        dual_stash=dual_stash,
        seq_len=seq_len,
        replay_communication=communication,
    )


def test_of_equals_the_one_with_the_fewest_replayed_ops_stands_for_all() -> None:
    policies, kept, flops = planner.price(BLOCKS["moe"], RECIPES["dsv3-fp8"])
    by_cost: dict[tuple[int, int], list[int]] = {}
    for mask, size, cost in zip(policies.tolist(), kept.tolist(), flops.tolist(), strict=True):
        by_cost.setdefault((cost, size), []).append(mask)
    front = planner.frontier(BLOCKS["moe"], RECIPES["dsv3-fp8"]).front
    assert any(len(by_cost[point[:2]]) > 1 for point in front)
    for point in front:
        wanted = min(by_cost[point[:2]], key=lambda mask: (mask.bit_count(), mask))
        assert point.replay == wanted


# --- the hull -------------------------------------------------------------------------------------


def test_the_hull_of_the_moe_block_in_bf16() -> None:
    found = frontier(BLOCKS["moe"], RECIPES["bf16"])
    corners = found.corners
    assert len(corners) == 12
    assert [corners[i].bytes_per_token for i in (0, 6, 11)] == [457_360, 256_640, 129_024]
    shares = [f"{found.replay_fraction(corners[i]):.3%}" for i in (0, 6, 11)]
    assert shares == ["0.000%", "8.168%", "80.261%"]
    assert all(a.replay & b.replay == a.replay for a, b in pairwise(corners))
    assert set(found.names(corners[6])) == set(POLICIES["dsv3"] or ())
    verdicts = {name: verdict[1:] for name, verdict in found.presets.items()}
    assert verdicts == {  # on the front, on the hull, dominated
        "none": (True, True, False),
        "dsv3": (True, True, False),
        "selective": (True, False, False),
        "attn-replay": (False, False, True),
        "full": (False, False, False),  # replays communication, and nothing keeps as little
    }
    full = frontier(BLOCKS["moe"], RECIPES["bf16"], replay_communication=True).presets["full"]
    assert full.dominated, "moe_add is replayed for nothing"


def test_a_policy_that_replays_what_it_may_not_is_on_no_front() -> None:
    strict = frontier(BLOCKS["moe"], RECIPES["bf16"])
    free = frontier(BLOCKS["moe"], RECIPES["bf16"], replay_communication=True)
    least = free.front[-1]
    assert "dispatch" in free.names(least)
    assert free.judge(least)[1:] == (True, True, False)
    assert strict.judge(least)[1:] == (False, False, False)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1))
def test_a_hull_lies_below_all_and_turns_at_every_corner(costs: list[tuple[int, int]]) -> None:
    front = pareto([Point(flops, size, 0) for flops, size in costs])
    assert len({point[:2] for point in front}) == len(front)
    assert all(any(f <= x and b <= y for f, b, _ in front) for x, y in costs)
    hull = lower_hull(tuple(front))
    assert hull[0] == 0
    assert hull[-1] == len(front) - 1
    corners = [front[i] for i in hull]
    slopes = [
        ((b.bytes_per_token - a.bytes_per_token) / (b.replay_flops - a.replay_flops))
        for a, b in pairwise(corners)
    ]
    assert all(a < b for a, b in pairwise(slopes)), "collinear points are left out"
    for (a, b), slope in zip(pairwise(corners), slopes, strict=True):
        for point in front:
            if a.replay_flops <= point.replay_flops <= b.replay_flops:
                height = a.bytes_per_token + slope * (point.replay_flops - a.replay_flops)
                assert point.bytes_per_token >= height - 1e-9


def test_the_cheapest_policy_under_a_budget() -> None:
    found = frontier(BLOCKS["moe"], RECIPES["bf16"])
    _, kept, flops = planner.price(BLOCKS["moe"], RECIPES["bf16"])
    for budget in (129_024, 129_025, 200_000, 256_639, 256_640, 457_359, 457_360, 10**12):
        answer = found.cheapest(budget)
        assert answer.bytes_per_token <= budget
        assert answer.replay_flops == flops[kept <= budget].min()
    assert set(found.names(found.cheapest(256_640))) == set(POLICIES["dsv3"] or ())
    assert found.cheapest(10**12).replay == 0
    with pytest.raises(ValueError, match=r"budget_bytes_per_token = 129023.*keeps is 129024"):
        found.cheapest(129_023)


def test_the_steps_of_every_recipe_are_the_golden() -> None:
    """Every corner and preset: changing one is fine, changing it invisibly is not."""
    text = "".join(
        f"# {kind}, {name}, communication {'replayed' if communication else 'saved'}\n"
        + frontier_text(frontier(graph, RECIPES[name], replay_communication=communication), None)
        + "\n\n"
        for kind, graph in BLOCKS.items()
        for name in RECIPES
        for communication in ((False, True) if kind == "moe" else (False,))
    )
    if os.environ.get("MEMMODEL_UPDATE_GOLDENS") == "1":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


# --- the command ----------------------------------------------------------------------------------


def test_the_document_of_the_command(capsys: Output) -> None:
    found = answer(capsys, "frontier", "--recipe", "bf16", "--budget-bytes-per-token", "256640")
    assert (found["kind"], found["policies"], len(found["hull"])) == ("moe", 131_072, 12)
    front = found["front"]
    assert [front[i]["stash_bytes_per_token"] for i in found["hull"]][6] == 256_640
    shares = [point["replay_fraction"] for point in front]
    assert shares == sorted(set(shares))
    assert (front[0]["replay"], front[0]["replay_fraction"]) == ([], 0)
    assert set(found["presets"]) == set(POLICIES)
    dsv3 = found["presets"]["dsv3"]
    assert (dsv3["on_front"], dsv3["on_hull"], dsv3["dominated"]) == (True, True, False)
    assert found["presets"]["attn-replay"]["dominated"] is True
    assert found["cheapest"] == front[found["hull"][6]]
    assert set(found["cheapest"]["replay"]) == set(POLICIES["dsv3"] or ())
    assert "cheapest" not in answer(capsys, "frontier")


def test_the_flags_of_the_command(capsys: Output) -> None:
    assert answer(capsys, "frontier", "--replay-communication")["policies"] == 524_288
    dense = answer(
        capsys,
        "frontier",
        "--kind",
        "dense",
        "--formats",
        '{"o_proj": "bf16"}',
        "--seq-len",
        "8192",
        "--recipe",
        "all-fp8",
        "--dual-stash",
    )
    wanted = frontier(
        BLOCKS["dense"], recipe("all-fp8", {"o_proj": "bf16"}), dual_stash=True, seq_len=8192
    )
    assert [point["stash_bytes_per_token"] for point in dense["front"]] == [
        point.bytes_per_token for point in wanted.front
    ]
    assert dense["forward_flops_per_token"] == wanted.forward_flops


def test_the_text_of_the_command(capsys: Output) -> None:
    assert main(["frontier", "--recipe", "bf16", "--budget-bytes-per-token", "300000"]) == 0
    out = capsys.readouterr().out
    assert "7                 256,640    8.17 %  + q_up, rope_q\n" in out
    assert "attn-replay       219,268   40.50 %  beaten by another policy\n" in out
    assert "full               14,336  100.00 %  replays communication\n" in out
    assert "at most 300,000 B per token: " in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--recompute", "full"], "--recompute: frontier compares all policies"),
        (["--replay", "norm1"], "--replay: frontier"),
        (["--save", "norm1,swiglu"], "--save: frontier"),
        (["--budget-bytes-per-token", "73471"], "= 73471, but the least .* is 73472"),
        (["--budget-bytes-per-token", "1e5"], "budget_bytes_per_token = 100000.0, but a whole"),
        (["--budget-bytes-per-token", "-1"], "budget_bytes_per_token = -1, but a whole"),
        (["--budget-bytes-per-token", "x"], "budget_bytes_per_token = 'x', but a whole"),
        (["--kind", "sparse"], "kind 'sparse'"),
        (["--recipe", "fp4"], "recipe 'fp4'"),
        (["--seq-len", "0"], "seq_len = 0"),
        (["--pp", "8"], "unrecognized arguments: --pp"),
    ],
)
def test_a_mistake_is_one_line(capsys: Output, arguments: list[str], words: str) -> None:
    assert re.search(words, mistake(capsys, "frontier", *arguments))


def test_without_numpy_the_command_says_so(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert "numpy is needed" in mistake(capsys, "frontier")


def test_no_other_command_waits_for_numpy() -> None:
    program = (
        "import sys; from memmodel.__main__ import main; main(['account']); "
        "sys.exit('numpy' in sys.modules or 'networkx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0
