"""What a budget asks of the layers of a rank, and how little replay it can possibly cost.

Every layer may have its own policy. A price on each kept byte (a Lagrange multiplier) takes the
layers apart: each then picks the corner of its own hull that is cheapest at that price, and the
sum is a lower bound on the replay of every mix of policies within the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise

from memmodel import schedule
from memmodel.frontiers import Frontier, Point, frontier
from memmodel.ledger import EMBEDDING_PART, HEAD_PART, layer_counts, rank_ledger
from memmodel.plan import Plan

STEPS = 16  # of the weight between two moments that are tried for the bound


@dataclass(frozen=True)
class Group:
    """The layers of one kind in one chunk: alike, but for the policies that they are given."""

    chunk: int
    kind: str
    num_layers: int
    alive: tuple[int, ...]  # microbatches of the chunk alive, at each moment that can be the peak
    frontier: Frontier


@dataclass(frozen=True)
class Problem:
    """The layers of a rank whose policies are to be chosen; kept bytes are per token."""

    groups: tuple[Group, ...]
    num_moments: int
    tokens: int  # of one microbatch on one GPU
    fixed_bytes: int  # embedding output and logits, whatever the policies

    def budget_per_token(self, budget_bytes: int) -> int:
        """What the layers may keep per token, all alive microbatches together, rounded down."""
        return (budget_bytes - self.fixed_bytes) // self.tokens

    def total_bytes(self, kept_per_token: int) -> int:
        """The rank's activations: the inverse of `budget_per_token`."""
        return kept_per_token * self.tokens + self.fixed_bytes

    def peak(self, choices: Iterable[tuple[Group, int, Point]]) -> int:
        """Bytes per token at the worst moment, of (group, layers, policy) for all layers."""
        totals = [0] * self.num_moments
        for group, layers, point in choices:
            for m, alive in enumerate(group.alive):
                totals[m] += alive * layers * point.bytes_per_token
        return max(totals)

    @property
    def least(self) -> int:
        """Bytes per token that the rank keeps at least."""
        return self.peak(
            (group, group.num_layers, group.frontier.front[-1]) for group in self.groups
        )

    @property
    def forward_flops(self) -> int:
        """FLOPs of one token's forward through the rank's layers."""
        return sum(group.num_layers * group.frontier.forward_flops for group in self.groups)


def problem(plan: Plan, rank: int, *, replay_communication: bool = False) -> Problem:
    """The layers of a rank, and how many microbatches of them are alive at every possible peak.

    The plan's own policy plays no part. Raises ValueError for a rank that does not exist.

    >>> [(g.kind, g.num_layers, g.alive) for g in problem(Plan(), 0).groups]
    [('dense', 3, (16,)), ('moe', 2, (1,))]
    """
    ledger = rank_ledger(plan, rank)
    moments = _moments(plan, rank)
    groups = [
        Group(
            index,
            kind,
            layers,
            tuple(moment[index] for moment in moments),
            frontier(
                plan.blocks[kind],
                plan.recipe_formats,
                dual_stash=plan.dual_stash,
                seq_len=plan.seq_len,
                replay_communication=replay_communication,
            ),
        )
        for index, chunk in enumerate(ledger.chunks)
        for kind, layers in layer_counts(plan, (chunk,)).items()
        if layers
    ]
    ends = [line.bytes for line in ledger.lines if line.part in (EMBEDDING_PART, HEAD_PART)]
    tokens = plan.microbatch_size * plan.seq_len // (plan.tp * plan.cp)
    return Problem(tuple(groups), len(moments), tokens, int(sum(ends)))


def _moments(plan: Plan, rank: int) -> tuple[tuple[int, ...], ...]:
    """Stashes alive by chunk at the moments that can be the peak."""
    if plan.pp == 1:
        return ((1,),)
    return schedule.moments(
        plan.schedule,
        rank,
        pp=plan.pp,
        microbatches=plan.num_microbatches,
        virtual_stages=plan.num_virtual_stages,
    )


@dataclass(frozen=True)
class Bound:
    """A lower bound on the replay of every mix within a budget, in whole numbers.

    A layer of group g with a policy is priced at
    flop_price * replayed FLOPs + byte_price * weights[g] * kept bytes.
    """

    flop_price: int
    byte_price: int
    weights: tuple[int, ...]  # by group: microbatches alive, summed over weighted moments
    least: tuple[int, ...]  # by group: the least that a layer is priced at
    total: int  # the least of all layers, less the budget's own price

    @property
    def flops(self) -> Fraction:
        """Replayed FLOPs per token, of a microbatch through all layers of the rank."""
        return Fraction(self.total, self.flop_price)

    def excess(self, g: int, point: Point) -> int:
        """What a policy for one layer of group g adds to the bound, at the bound's prices."""
        spent = self.byte_price * self.weights[g] * point.bytes_per_token
        return self.flop_price * point.replay_flops + spent - self.least[g]


def lower_bound(found: Problem, budget: int) -> Bound:
    """The bound for a budget per token: the best there is where only one moment can be the peak.

    Where several can be, each of them and weighted sums of two are tried, and the best is taken:
    what is within the budget at every moment is within every weighted sum of the budgets.
    """
    moments = range(found.num_moments)
    weighted: list[dict[int, int]] = [{m: 1} for m in moments]
    for a, b in combinations(moments, 2):
        weighted += [{a: i, b: STEPS - i} for i in range(1, STEPS)]
    bounds = [_bound(found, budget, moments) for moments in weighted]
    return max(bounds, key=lambda bound: bound.flops)


def _bound(found: Problem, budget: int, moments: dict[int, int]) -> Bound:
    """The bound for one weighted sum of moments: from least replay down the hulls' edges."""
    weights = tuple(
        sum(times * group.alive[m] for m, times in moments.items()) for group in found.groups
    )
    budget *= sum(moments.values())
    kept, edges = 0, []
    for group, weight in zip(found.groups, weights, strict=True):
        corners = group.frontier.corners
        kept += weight * group.num_layers * corners[0].bytes_per_token
        for a, b in pairwise(corners) if weight else ():
            more = b.replay_flops - a.replay_flops
            freed = weight * (a.bytes_per_token - b.bytes_per_token)
            # Rounding may swap edges of nearly equal slope: any price gives a bound.
            edges.append((more / freed, more, freed, group.num_layers))
    flop_price, byte_price = 1, 0
    for _, more, freed, layers in sorted(edges):
        if kept <= budget:
            break
        flop_price, byte_price, kept = freed, more, kept - layers * freed
    least = tuple(
        min(
            flop_price * point.replay_flops + byte_price * weight * point.bytes_per_token
            for point in group.frontier.corners
        )
        for group, weight in zip(found.groups, weights, strict=True)
    )
    total = sum(price * group.num_layers for price, group in zip(least, found.groups, strict=True))
    return Bound(flop_price, byte_price, weights, least, total - byte_price * budget)
