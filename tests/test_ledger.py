"""The ledger: stored numbers, answers of exercises, conservation, and one golden of every line.

To accept a change of the golden: MEMMODEL_UPDATE_GOLDENS=1 pytest tests/test_ledger.py, then
review the diff.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from fractions import Fraction
from math import ceil, prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import valid_plans

from memmodel.configs import load
from memmodel.devices import device
from memmodel.formats import OPTIMIZERS
from memmodel.ledger import CATEGORIES, STATES, RankLedger, account, rank_ledger
from memmodel.plan import Plan
from memmodel.steps import STEPS

GOLDENS = Path(__file__).parent / "goldens"
REFERENCE = json.loads((GOLDENS / "reference.json").read_text())
TOTAL = 671_026_419_200
GIB, TIB = 2**30, 2**40
DSV3 = load("deepseek-v3")

SIX = [step.plan for step in STEPS]
NAIVE = SIX[0]


def gib(value: int | Fraction, digits: int = 2) -> float:
    return round(float(value) / GIB, digits)


# --- stored numbers ------------------------------------------------------------------------------


def test_the_default_plan_fits() -> None:
    found = account(Plan())
    assert (found.peak.rank, found.peak.total) == (1, 66_296_545_344)
    assert found.fits
    assert found.slack_bytes == 80 * GIB - 66_296_545_344
    assert gib(found.slack_bytes) == 18.26


@pytest.mark.parametrize("rank", REFERENCE["ranks_at_step_6"])
def test_ranks_at_step_6(rank: str) -> None:
    wanted = REFERENCE["ranks_at_step_6"][rank]
    found = account(Plan()).ranks[int(rank)]
    assert {**found.totals, "total": found.total} == {
        **{name: wanted[name] for name in (*CATEGORIES[:4], "total")},
        "reserve": 0,
    }
    assert isinstance(found.total, int)


def test_rank_0_holds_16_stashes_of_its_first_chunk() -> None:
    ledgers = account(Plan()).ranks
    assert ledgers[0].total == 50_737_370_864
    assert ledgers[0].stashes == (16, 1)
    # 2*PP - r and 1 + r.
    assert [ledger.stashes for ledger in ledgers] == [(16 - r, 1 + r) for r in range(8)]
    # reference.json: an average of 8.5 would give 51,559,192,304, 1.6 % too high on the total.
    total, activations = ledgers[0].total, ledgers[0].totals["activations"]
    first, second = (line.bytes for line in ledgers[0].lines if line.part.startswith("chunk"))
    excess = Fraction(17, 2) * (Fraction(first, 16) + second) - (first + second)
    assert total + excess == 51_559_192_304
    # Of its layer stashes, its activations, its total.
    shares = [100 * float(excess / size) for size in (first + second, activations, total)]
    assert [round(share, 1) for share in shares] == [4.1, 3.5, 1.6]


# --- answers of exercises -----------------------------------------------------------------------


def test_states_of_the_whole_model() -> None:
    assert DSV3.parameters() == TOTAL
    assert DSV3.active_parameters == 36_625_618_432
    routed = DSV3.parameters("routed_experts")
    vocabulary = sum(part.elements for part in DSV3.end_parts.values())
    assert round(100 * routed / TOTAL, 2) == 97.45
    assert round(routed / (TOTAL - routed - vocabulary), 1) == 42.8
    totals = account(NAIVE).peak.totals
    sizes = [totals[state] / TIB for state in STATES]
    assert [round(size, 2) for size in sizes] == [1.22, 2.44, 4.88]
    assert round(sum(totals[state] for state in STATES) / TIB, 2) == 8.54
    assert [ceil(TOTAL * per_param / (80 * GIB)) for per_param in (14, 16)] == [110, 125]
    assert [OPTIMIZERS[name].total for name in ("bf16-moments", "mixed")] == [14, 16]


@pytest.mark.parametrize("ep", [2**power for power in range(9)])
def test_the_sharded_optimizer_is_the_same_for_any_ep(ep: int) -> None:
    optimizer = account(replace(NAIVE, zero=1, ep=ep)).peak.totals["optimizer"]
    assert optimizer == TOTAL * 8 // 2048
    assert gib(optimizer) == 2.44


def test_expert_parallelism_alone() -> None:
    before = account(NAIVE).peak.totals["weights"]
    after = account(replace(NAIVE, ep=64)).peak.totals["weights"]
    assert gib(after, 1) == 50.9
    assert round(before / after, 1) == 24.5


def test_states_of_the_ranks() -> None:
    ledgers = account(Plan()).ranks
    for ledger in ledgers[1:]:
        assert ledger.totals["weights"] == 2 * 3_273_263_104
        assert [gib(ledger.totals[s]) for s in STATES] == [6.10, 12.19, 2.68]
    assert ledgers[0].totals["weights"] == 2 * 4_422_131_200
    assert gib(ledgers[0].totals["weights"]) == 8.24
    vocabulary = sum(
        line.bytes
        for line in ledgers[0].lines
        if line.category == "weights" and line.part in ("embedding", "head")
    )
    assert gib(vocabulary) == 3.45


def test_stashes_in_flight() -> None:
    plan = Plan(microbatches=64)
    assert sum(rank_ledger(plan, 3).stashes) / 2 == 8.5
    assert rank_ledger(replace(plan, schedule="1f1b"), 0).stashes == (8,)
    assert rank_ledger(replace(plan, schedule="gpipe"), 0).stashes == (64,)


def activations(**changes: Any) -> float:
    return gib(rank_ledger(replace(Plan(), **changes), 1).totals["activations"])


def test_activations_of_an_interior_rank() -> None:
    assert activations(recipe="bf16", recompute="none") == 118.64
    assert activations(recipe="bf16") == 66.57
    assert activations() == 40.77
    assert activations(recompute="full") == 3.72
    # With a bf16 attention output.
    assert round(activations(formats={"o_proj": "bf16"}), 1) == 42.9
    # q_norm replayed alone.
    assert round(activations(recipe="bf16", recompute="none", replay=("q_norm",)), 1) == 117.8


def test_totals_verdicts_and_logits() -> None:
    assert gib(account(Plan()).peak.total) == 61.74
    assert [gib(account(plan).peak.total, 1) for plan in SIX[3:]] == [139.6, 87.5, 61.7]
    assert [account(plan).fits for plan in SIX] == 5 * [False] + [True]
    assert gib(account(Plan(microbatch_size=2)).peak.total, 1) == 102.5
    assert round(activations(dual_stash=True) - activations(), 2) == 15.34
    (logits,) = (line for line in rank_ledger(Plan(), 0).lines if line.part.startswith("logits"))
    assert gib(logits.bytes) == 2.96
    assert logits.bytes == 6 * 129_280 * 4096
    assert gib(4 * 129_280 * 4096) == 1.97
    # The first step against the yardstick of 80 GiB.
    naive = account(NAIVE).peak.total
    assert round(naive / TIB, 2) == 8.65
    assert round(naive / (80 * GIB), 1) == 110.7


# --- conservation --------------------------------------------------------------------------------

# TP divides these; everything else is whole on every rank of a TP group.
BY_TP = ("attention heads", "dense FFN", "shared experts", "embedding", "head")


def unique_parameters(plan: Plan) -> Fraction:
    """Parameters of all ranks together, with every replica counted once."""
    total = Fraction(0)
    for ledger in account(replace(plan, zero=0, fp8_params=False)).ranks:
        for line in ledger.lines:
            if line.category != "weights":
                continue
            if line.part == "routed experts":
                group = plan.ep * plan.etp
            else:
                group = plan.tp if line.part in BY_TP else 1
            total += Fraction(line.bytes) * group
    copies = 2 if plan.schedule == "dualpipe" and plan.pp > 1 else 1
    return total / OPTIMIZERS[plan.optimizer].weights / copies


@settings(max_examples=150, deadline=None)
@given(fields=valid_plans())
def test_parameters_over_all_ranks_are_the_checkpoint(fields: dict[str, Any]) -> None:
    assert unique_parameters(Plan(**fields)) == TOTAL


@pytest.mark.parametrize("pp", [1, 2, 3, 4, 7, 8, 16, 31])
@pytest.mark.parametrize("ep", [1, 8, 64, 256])
def test_parameters_for_plain_pp_and_ep(pp: int, ep: int) -> None:
    assert unique_parameters(Plan(gpus=256 * pp, pp=pp, ep=ep)) == TOTAL


@settings(max_examples=100, deadline=None)
@given(fields=valid_plans(zero=1))
def test_a_sharded_optimizer_has_no_replica_but_those_of_tp(fields: dict[str, Any]) -> None:
    """All GPUs together hold each optimizer state once, and what TP replicates tp times."""
    plan = Plan(**fields)
    gpus_of_a_rank = plan.gpus // plan.pp
    held = sum(
        Fraction(line.bytes) * gpus_of_a_rank
        for ledger in account(plan).ranks
        for line in ledger.lines
        if line.category == "optimizer"
    )
    replicated = DSV3.parameters("norms") + DSV3.parameters("router") + 61 * 15_138_816
    expected = OPTIMIZERS[plan.optimizer].optimizer * (TOTAL + (plan.tp - 1) * replicated)
    assert held == expected


@settings(max_examples=100, deadline=None)
@given(fields=valid_plans(), data=st.data())
def test_lines_are_their_factors_and_sum_to_totals(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    plan = Plan(**fields)
    ledger = rank_ledger(plan, data.draw(st.integers(0, plan.pp - 1)))
    for line in ledger.lines:
        above = prod((Fraction(value) for _, value in line.factors), start=Fraction(1))
        below = prod((Fraction(value) for _, value in line.divisors), start=Fraction(1))
        assert line.bytes == above / below
        assert isinstance(line.bytes, int) or line.bytes.denominator > 1
        assert line.bytes >= 0  # a chunk may have nothing alive at the peak of its rank
        assert all(name and value >= 0 for name, value in (*line.factors, *line.divisors))
    for category in CATEGORIES:
        lines = [line.bytes for line in ledger.lines if line.category == category]
        assert ledger.totals[category] == sum(lines)
    assert ledger.total == sum(line.bytes for line in ledger.lines)
    labels = [(line.category, line.part, line.factors[1]) for line in ledger.lines]
    assert len(set(labels)) == len(labels)


@settings(max_examples=60, deadline=None)
@given(fields=valid_plans())
def test_more_zero_never_costs_more(fields: dict[str, Any]) -> None:
    plan = Plan(**fields)
    totals = [account(replace(plan, zero=zero)).peak.total for zero in range(4)]
    assert totals == sorted(totals, reverse=True)


# --- what divides what ----------------------------------------------------------------------------


def by_part(plan: Plan, rank: int, category: str) -> dict[str, Fraction]:
    sums: dict[str, Fraction] = {}
    for line in rank_ledger(plan, rank).lines:
        if line.category == category:
            sums[line.part] = sums.get(line.part, Fraction(0)) + line.bytes
    return sums


BASE = Plan(gpus=4096, microbatches=64, zero=0)  # 4096 GPUs, so that every lever below divides


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("state", STATES)
def test_tp_and_etp_divide_their_parts_of_every_state(rank: int, state: str) -> None:
    before = by_part(BASE, rank, state)
    after = by_part(replace(BASE, tp=4), rank, state)
    assert {part: before[part] / after[part] for part in before} == {
        part: 4 if part in BY_TP else 1 for part in before
    }
    after = by_part(replace(BASE, etp=2), rank, state)
    assert {part: before[part] / after[part] for part in before} == {
        part: 2 if part == "routed experts" else 1 for part in before
    }
    assert by_part(replace(BASE, cp=2), rank, state) == before  # CP holds every state whole
    after = by_part(replace(BASE, ep=128), rank, state)
    assert before["routed experts"] / after["routed experts"] == 2


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("zero", [1, 2, 3])
def test_zero_shards_experts_over_edp_and_the_rest_over_dp_and_cp(rank: int, zero: int) -> None:
    plan = replace(BASE, tp=2, cp=2, etp=2)
    sharded = {1: STATES[2:], 2: STATES[1:], 3: STATES}[zero]
    for state in STATES:
        whole = by_part(plan, rank, state)
        after = by_part(replace(plan, zero=zero), rank, state)
        dp, edp = 4096 // (2 * 2 * 8), 4096 // (8 * 64 * 2)
        for part, size in whole.items():
            over = edp if part == "routed experts" else dp * 2
            assert size / after[part] == (over if state in sharded else 1), (state, part)


@pytest.mark.parametrize("rank", [0, 1])
def test_activations_scale_with_tokens_and_are_divided_by_tp_and_cp(rank: int) -> None:
    # Every kept activation, vocabulary side included; EP changes nothing.
    before = by_part(BASE, rank, "activations")
    for changes, factor in (
        ({"tp": 4}, Fraction(1, 4)),
        ({"cp": 2}, Fraction(1, 2)),
        ({"tp": 4, "cp": 2}, Fraction(1, 8)),
        ({"microbatch_size": 3}, 3),
        ({"seq_len": 8192}, 2),
        ({"ep": 1}, 1),
        ({"ep": 256}, 1),
        ({"etp": 2}, 1),
        ({"zero": 3}, 1),
        ({"optimizer": "fp32"}, 1),
        ({"fp8_params": True}, 1),
    ):
        after = by_part(replace(BASE, **changes), rank, "activations")
        assert after == {part: size * factor for part, size in before.items()}, changes


def test_vocabulary_is_charged_once_to_the_ranks_that_host_it() -> None:
    # 2*7168 B and 6*129280 B per token, for one microbatch.
    ends = {"embedding output": 2 * 7168 * 4096, "logits and their softmax": 6 * 129_280 * 4096}
    for schedule, hosts in (
        ("dualpipev", {0: set(ends)}),
        ("1f1b", {0: {"embedding output"}, 7: {"logits and their softmax"}}),
        ("dualpipe", {0: set(ends), 7: set(ends)}),
    ):
        for ledger in account(Plan(schedule=schedule)).ranks:
            found = {line.part: line.bytes for line in ledger.lines if line.part in ends}
            assert found == {name: ends[name] for name in hosts.get(ledger.rank, set())}


def test_dualpipe_doubles_weights_and_gradients_and_shards_the_optimizer_over_both() -> None:
    # Bidirectional: ranks r and PP-1-r hold the same.
    twice, once = account(Plan(schedule="dualpipe")), account(Plan(schedule="1f1b"))
    for ledger, mirror in zip(twice.ranks, reversed(twice.ranks), strict=True):
        other = 7 - ledger.rank
        for state, share in (("weights", 1), ("gradients", 1), ("optimizer", Fraction(1, 2))):
            pair = once.ranks[ledger.rank].totals[state] + once.ranks[other].totals[state]
            assert ledger.totals[state] == mirror.totals[state] == pair * share


@pytest.mark.parametrize("schedule", ["single", "gpipe", "interleaved", "dualpipe", "dualpipev"])
def test_without_a_pipeline_one_microbatch_is_in_flight(schedule: str) -> None:
    ledger = account(Plan(gpus=64, pp=1, schedule=schedule, microbatches=7)).peak
    assert ledger.stashes == (1,)
    assert (ledger.chunks[0].first, ledger.chunks[0].stop) == (0, 61)
    assert ledger.totals["weights"] == account(Plan(gpus=64, pp=1)).peak.totals["weights"]


def test_fp8_resident_weights_are_those_of_the_blocks() -> None:
    # 2*(1 + 4/128) B on block parameters; embedding and head stay bf16.
    before, after = by_part(Plan(), 0, "weights"), by_part(Plan(fp8_params=True), 0, "weights")
    for part, size in before.items():
        ratio = 1 if part in ("embedding", "head", "final norm") else Fraction(33, 32)
        assert after[part] == size * ratio, part
    assert by_part(Plan(fp8_params=True), 0, "gradients") == by_part(Plan(), 0, "gradients")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_are_bytes_per_parameter(optimizer: str) -> None:
    state = OPTIMIZERS[optimizer]
    totals = account(Plan(gpus=64, pp=1, ep=1, zero=0, optimizer=optimizer)).peak.totals
    assert totals["weights"] == TOTAL * state.weights
    assert totals["gradients"] == TOTAL * state.gradients
    assert totals["optimizer"] == TOTAL * state.optimizer


# --- the verdict ----------------------------------------------------------------------------------


def test_the_verdict_is_of_the_peak_rank_with_its_reserve() -> None:
    usable = device("h100").usable_bytes
    spare = usable - 66_296_545_344
    exact = account(Plan(reserve_gib=17))
    assert exact.peak.totals["reserve"] == 17 * GIB
    assert exact.slack_bytes == 80 * GIB - exact.peak.total
    assert account(Plan(reserve_gib=spare / GIB - 0.001)).fits
    assert not account(Plan(reserve_gib=spare / GIB + 0.001)).fits
    assert not any(line.category == "reserve" for line in account(Plan()).peak.lines)
    # A tenth of a GiB is no whole number of bytes, and stays exact.
    assert account(Plan(reserve_gib=0.1)).peak.totals["reserve"] == Fraction(GIB, 10)
    # Its formula shows what was set aside, be it ever so little.
    for written in (0.1, 0.123456, 0.00001, 7, 2.0):
        line = account(Plan(reserve_gib=written)).peak.lines[-1]
        assert line.category == "reserve"
        assert Fraction(line.formula().split()[0]) == Fraction(str(written))


def test_the_peak_rank_is_the_first_of_the_heaviest() -> None:
    found = account(Plan())
    heaviest = max(ledger.total for ledger in found.ranks)
    assert [ledger.rank for ledger in found.ranks if ledger.total == heaviest] == list(range(1, 8))
    assert found.peak.rank == 1


@pytest.mark.parametrize("rank", [-1, 8, 10**9])
def test_a_rank_that_does_not_exist_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match=f"rank = {rank}, but pp = 8 has ranks 0 to 7"):
        rank_ledger(Plan(), rank)


# --- the golden -----------------------------------------------------------------------------------


def as_text(ledger: RankLedger) -> str:
    lines = [
        f"{line.category:11}  {line.part:24}  {line.bytes!s:>14}  {line.formula()}"
        for line in ledger.lines
    ]
    return "\n".join([f"rank {ledger.rank}: {ledger.total} B", *lines, ""])


def test_every_line_of_the_default_ledger_is_the_golden() -> None:
    """Label, exact value, formula: changing one is fine, changing it invisibly is not."""
    path = GOLDENS / "ledger.txt"
    found = account(Plan())
    text = "\n".join(as_text(found.ranks[rank]) for rank in (0, 1))
    if os.environ.get("MEMMODEL_UPDATE_GOLDENS") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
