"""The cheapest mix of policies that keeps a rank within a budget, each layer with its own policy.

Exact, in whole numbers. The Lagrangian bound of `budgets` leaves a gap of at most one step of one
layer; what a choice adds to the bound is its excess, and a mix whose excess is above the gap
cannot be the optimum. So few partial mixes have to be looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from memmodel.budgets import Bound, Group, Problem, lower_bound, problem
from memmodel.frontiers import Point
from memmodel.plan import Plan

MOST_CANDIDATES = 60_000  # to be joined at once: ranks of some ten layers stay far below


@dataclass(frozen=True)
class Choice:
    """One policy, and how many layers of a kind in a chunk have it."""

    chunk: int
    kind: str
    num_layers: int
    replay: tuple[str, ...]
    point: Point


@dataclass(frozen=True)
class Mix:
    """A policy for every layer of a rank, and what the rank then keeps and replays."""

    choices: tuple[Choice, ...]
    activation_bytes: int  # at the rank's peak, embedding output and logits included
    replay_flops: int  # per token, of a microbatch through all layers of the rank
    forward_flops: int
    lower_bound: Fraction  # on the replay of every mix: the Lagrangian bound
    exact: bool  # whether no mix replays less; False where the search was too long to end

    @property
    def replay_fraction(self) -> float:
        """Replayed FLOPs over forward FLOPs of the rank's layers."""
        return self.replay_flops / max(1, self.forward_flops)


def cheapest_mix(
    plan: Plan, rank: int, budget_bytes: int, *, replay_communication: bool = False
) -> Mix:
    """The mix of least replay with which the activations of a rank fit `budget_bytes`.

    Activations are the lines of that category in the rank's ledger. Of mixes of equal replay any
    one is returned, always the same. The plan's own policy plays no part.

    >>> mix = cheapest_mix(Plan(recipe="bf16"), 1, 66 * 2**30)  # dsv3 keeps 66.57 GiB, at 8.17 %
    >>> f"{mix.activation_bytes / 2**30:.2f} GiB, {mix.replay_fraction:.2%}, {mix.exact}"
    '66.00 GiB, 6.98%, True'
    >>> [(choice.chunk, choice.num_layers, choice.point.bytes_per_token) for choice in mix.choices]
    [(0, 2, 256640), (0, 1, 254464), (0, 1, 221184), (1, 1, 309896), (1, 2, 308868), (1, 1, 305792)]

    Raises ValueError that names the least possible where nothing fits, and for an unknown rank.
    """
    found = problem(plan, rank, replay_communication=replay_communication)
    budget = found.budget_per_token(budget_bytes)
    if found.least > budget:
        raise ValueError(
            f"budget_bytes = {budget_bytes}, but the least that rank {rank} can keep is "
            f"{found.total_bytes(found.least)}"
        )
    bound = lower_bound(found, budget)
    best, exact = _optimum(found, budget, bound)
    counts = Counter(_leaves(best.chosen))
    choices = tuple(
        Choice(group.chunk, group.kind, counts[_Leaf(g, point)], group.frontier.names(point), point)
        for g, group in enumerate(found.groups)
        for point in group.frontier.front
        if _Leaf(g, point) in counts
    )
    return Mix(
        choices,
        found.total_bytes(max(best.kept)),
        best.replay_flops,
        found.forward_flops,
        bound.flops,
        exact,
    )


class _Leaf(NamedTuple):
    """A layer of a group with its policy."""

    group: int
    point: Point


_Tree = _Leaf | tuple["_Tree", "_Tree"] | None


class _Part(NamedTuple):
    """Policies for some layers of one group."""

    kept: int  # bytes per token of one microbatch
    replay_flops: int
    excess: int
    chosen: _Tree = None


class _Partial(NamedTuple):
    """Policies for some layers of the rank."""

    kept: tuple[int, ...]  # bytes per token at each moment, all alive microbatches together
    replay_flops: int
    excess: int
    chosen: _Tree = None

    def joined(self, part: _Part, group: Group) -> _Partial:
        return _Partial(
            tuple(
                kept + alive * part.kept for kept, alive in zip(self.kept, group.alive, strict=True)
            ),
            self.replay_flops + part.replay_flops,
            self.excess + part.excess,
            (self.chosen, part.chosen),
        )


class _TooManyError(Exception):
    """A search has more candidates than may be looked at."""


def _optimum(found: Problem, budget: int, bound: Bound) -> tuple[_Partial, bool]:
    """Search with a growing allowance of excess, until it covers the gap of what was found."""
    best = _Partial((0,) * found.num_moments, 0, 0)
    for g, group in enumerate(found.groups):
        for _ in range(group.num_layers):
            best = best.joined(_one_layer(g, group.frontier.front[-1], bound), group)
    # To begin with, a small part of one step at the bound's price.
    allowance = bound.flop_price * bound.byte_price // 64
    while True:
        try:
            better = _search(found, budget, bound, allowance)
        except _TooManyError:
            return best, False
        if better is not None and better.replay_flops <= best.replay_flops:
            best = better
        gap = bound.flop_price * best.replay_flops - bound.total
        if gap <= allowance:
            return best, True
        allowance = min(gap, 2 * allowance + 1)


def _search(found: Problem, budget: int, bound: Bound, allowance: int) -> _Partial | None:
    """The mix of least replay among those whose excess is allowed, if any fits the budget."""
    parts: list[tuple[Group, list[_Part]]] = []
    layers = sum(group.num_layers for group in found.groups)
    for g, group in enumerate(found.groups):
        # One group of most layers is searched in two halves: they are joined by bisection.
        most = group.num_layers
        halves = (most // 2, most - most // 2) if 2 * most > layers > 1 else (most,)
        grown = _grow(g, group, bound, allowance, max(halves))
        parts += [(group, grown[half]) for half in halves]
    mixes = [_Partial((0,) * found.num_moments, 0, 0)]
    if not parts:
        return mixes[0]
    parts.sort(key=lambda part: len(part[1]))
    *others, (last, ends) = parts
    for group, own in others:
        mixes = _join(mixes, own, group, allowance)
    # `ends` keep more and replay less from one to the next: the last that fits is the best.
    sizes = [end.kept for end in ends]
    best: tuple[int, _Partial, _Part] | None = None
    for mix in mixes:
        room = min(
            ((budget - kept) // alive if alive else sizes[-1] if kept <= budget else -1)
            for kept, alive in zip(mix.kept, last.alive, strict=True)
        )
        at = bisect_right(sizes, room) - 1
        if at >= 0 and (best is None or mix.replay_flops + ends[at].replay_flops < best[0]):
            best = mix.replay_flops + ends[at].replay_flops, mix, ends[at]
    return None if best is None else best[1].joined(best[2], last)


def _one_layer(g: int, point: Point, bound: Bound) -> _Part:
    return _Part(point.bytes_per_token, point.replay_flops, bound.excess(g, point), _Leaf(g, point))


def _grow(g: int, group: Group, bound: Bound, allowance: int, layers: int) -> list[list[_Part]]:
    """The mixes of 0, 1, ... layers of a group whose excess is allowed, beaten ones left out.

    Each list rises in bytes and falls in replay.
    """
    steps = [_one_layer(g, point, bound) for point in group.frontier.front]
    steps = [step for step in steps if step.excess <= allowance]
    grown = [[_Part(0, 0, 0)]]
    for _ in range(layers):
        before = grown[-1]
        _check(len(steps) * len(before))
        # Plain tuples, and parts for the few that are left: this is the inner loop.
        candidates = [
            (kept + step.kept, flops + step.replay_flops, excess + step.excess, i, j)
            for j, step in enumerate(steps)
            for i, (kept, flops, excess, _) in enumerate(before)
            if excess + step.excess <= allowance
        ]
        candidates.sort()
        after: list[_Part] = []
        for kept, flops, excess, i, j in candidates:
            if not after or flops < after[-1].replay_flops:
                after.append(_Part(kept, flops, excess, (before[i].chosen, steps[j].chosen)))
        grown.append(after)
    return grown


def _join(mixes: list[_Partial], own: list[_Part], group: Group, allowance: int) -> list[_Partial]:
    """All pairs whose excess is allowed, without those that keep and replay no less than another.

    Where several moments can be the peak, only pairs that keep just as much are compared.
    """
    _check(len(mixes) * len(own))
    candidates = [
        mix.joined(part, group)
        for part in own
        for mix in mixes
        if mix.excess + part.excess <= allowance
    ]
    candidates.sort(key=lambda mix: mix[:2])
    left: list[_Partial] = []
    for mix in candidates:
        if not left or (
            mix.replay_flops < left[-1].replay_flops
            if len(mix.kept) == 1
            else mix.kept != left[-1].kept
        ):
            left.append(mix)
    return left


def _check(candidates: int) -> None:
    if candidates > MOST_CANDIDATES:
        raise _TooManyError


def _leaves(tree: _Tree) -> Iterator[_Leaf]:
    """The policy of every layer."""
    if isinstance(tree, _Leaf):
        yield tree
    elif tree is not None:
        for branch in tree:
            yield from _leaves(branch)
