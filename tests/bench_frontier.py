"""Times the frontier, its minimum cuts and the mixes of a rank; prints the figures."""

from __future__ import annotations

from fractions import Fraction

from bench_ledger import best_us, machine

from memmodel import frontiers, planner
from memmodel.budgets import problem
from memmodel.configs import load
from memmodel.formats import RECIPES
from memmodel.graph import block
from memmodel.mincut import Cuts
from memmodel.mixes import cheapest_mix
from memmodel.plan import Plan

BUDGETS_GIB = range(35, 115, 5)


def main() -> None:
    """Print one line a figure."""
    moe, bf16 = block(load("deepseek-v3"), "moe"), RECIPES["bf16"]
    uncached = frontiers.frontier.__wrapped__
    plan = Plan(recipe="bf16")
    problem(plan, 1)  # the frontiers of its blocks are found once
    slowest = max(
        best_us(lambda gib=gib: cheapest_mix(plan, 1, gib * 2**30), 1, 3)  # type: ignore[misc]
        for gib in BUDGETS_GIB
    )
    print(machine())
    for label, figure, aim in (
        ("price of all 2^17 policies", best_us(lambda: planner.price(moe, bf16), 1), ""),
        ("the same and their frontier", best_us(lambda: planner.frontier(moe, bf16), 1), ""),
        (
            "price of all 2^19 policies",
            best_us(lambda: planner.price(moe, bf16, replay_communication=True), 1),
            "100 ms",
        ),
        (
            "the same and their frontier",
            best_us(lambda: planner.frontier(moe, bf16, replay_communication=True), 1),
            "",
        ),
        (
            "that frontier mark by mark, as in the page",
            best_us(lambda: uncached(moe, bf16, replay_communication=True), 1),
            "",
        ),
        ("one minimum cut", best_us(lambda: Cuts(moe, bf16).best(Fraction(1600)), 1), ""),
        ("the whole hull by minimum cuts", best_us(Cuts(moe, bf16).corners, 1), ""),
        (f"mix of an interior rank, slowest of {len(BUDGETS_GIB)} budgets", slowest, ""),
    ):
        print(f"{label:50} {figure / 1e3:8.1f} ms" + (f"  (aim: {aim})" if aim else ""))


if __name__ == "__main__":
    main()
