"""The frontier between memory and recompute of one block: which policies no other one beats.

Keeping is a local question, so the kept bytes of a policy are a sum of terms over a few marks
each. The front of all policies is built up mark by mark: partial policies that agree on the marks
that later terms ask for can be compared, and those that cost more on both sides are dropped. That
is exact and needs no enumeration; `planner` prices every policy and finds the same front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import NamedTuple

from memmodel.formats import FORMATS, Recipe
from memmodel.graph import Block, Op
from memmodel.recompute import POLICIES, marks, stash, tensor_bytes, transposable


class Term(NamedTuple):
    """Bytes per token that are kept while `own` is saved and one of `triggers` is replayed.

    Marks are positions in `Block.markable`. No own mark: always saved (the block's input). No
    triggers at all (None): a backward reads the tensor, it is kept whenever it is saved.
    """

    nbytes: int
    own: int | None
    triggers: tuple[int, ...] | None

    def kept(self, replayed: int) -> bool:
        """Whether a policy keeps it; bit i of `replayed` is set where op i is replayed."""
        if self.own is not None and replayed >> self.own & 1:
            return False
        return self.triggers is None or any(replayed >> i & 1 for i in self.triggers)


def terms(block: Block, recipe: Recipe, dual_stash: bool = False) -> tuple[Term, ...]:
    """Everything that some policy of a block keeps, one term for each tensor and statistic.

    A tensor that is kept in both orientations has a second term, for the second orientation.
    """
    place = {name: i for i, name in enumerate(block.markable)}
    found = []

    def add(nbytes: int, op: Op, *, read: bool, consumers: tuple[Op, ...]) -> None:
        triggers = tuple(place[other.name] for other in consumers if other.name in place)
        if read or triggers:
            found.append(Term(nbytes, place.get(op.name), None if read else triggers))

    for op in block.ops:
        if op.name == "x2":
            continue
        readers, consumers = block.readers[op.name], block.consumers[op.name]
        if op.aux is not None:
            add(FORMATS["fp32"].nbytes(op.aux[1]), op, read=True, consumers=())
        size = tensor_bytes(op, recipe)
        add(size, op, read=bool(readers), consumers=consumers)
        if dual_stash and transposable(op, recipe):
            gemms = tuple(other for other in consumers if other.has_gemm)
            add(size, op, read=any(other.has_gemm for other in readers), consumers=gemms)
    return tuple(found)


def free_marks(block: Block, replay_communication: bool = False) -> tuple[int, ...]:
    """The marks that a policy may set: all, or all but those of dispatch and combine."""
    return tuple(
        i
        for i, name in enumerate(block.markable)
        if replay_communication or block.by_name[name].kind != "comm"
    )


class Point(NamedTuple):
    """One policy: what it replays and what it costs, per token."""

    replay_flops: int
    bytes_per_token: int
    replay: int  # bit i is set where op i of Block.markable is replayed


class Verdict(NamedTuple):
    """Where a named policy stands."""

    point: Point
    on_front: bool
    on_hull: bool
    dominated: bool


@dataclass(frozen=True, eq=False)
class Frontier:
    """The policies of a block that no other one beats, by rising replay.

    Of policies with equal bytes and equal replay the one with the fewest replayed ops stands in
    the front, then the one whose last op comes first.
    """

    block: Block
    recipe: Recipe
    dual_stash: bool
    seq_len: int
    replay_communication: bool
    front: tuple[Point, ...]

    @property
    def num_policies(self) -> int:
        return 1 << len(free_marks(self.block, self.replay_communication))

    @cached_property
    def forward_flops(self) -> int:
        """bf16 FLOPs of one token's forward through the block."""
        return sum(op.forward_flops(self.seq_len) for op in self.block.ops)

    def replay_fraction(self, point: Point) -> float:
        """Replayed FLOPs over forward FLOPs."""
        return point.replay_flops / self.forward_flops

    def names(self, point: Point) -> tuple[str, ...]:
        """The ops that a policy replays, in forward order."""
        return tuple(op for i, op in enumerate(self.block.markable) if point.replay >> i & 1)

    @cached_property
    def hull(self) -> tuple[int, ...]:
        """Positions in `front` of the lower convex hull, collinear points left out."""
        return lower_hull(self.front)

    @cached_property
    def corners(self) -> tuple[Point, ...]:
        """The policies of the hull."""
        return tuple(self.front[i] for i in self.hull)

    @cached_property
    def presets(self) -> Mapping[str, Verdict]:
        """Where each named policy stands.

        One that replays communication while that is not allowed is on neither front nor hull, but
        it may be dominated.
        """
        return MappingProxyType({name: self.judge(self.preset(name)) for name in POLICIES})

    def preset(self, name: str) -> Point:
        """What a named policy costs."""
        return self.point(marks([self.block], name)[self.block.kind])

    def point(self, replayed: frozenset[str]) -> Point:
        """What any policy costs, by the accounting itself."""
        found = stash(self.block, self.recipe, replayed, self.dual_stash)
        mask = sum(1 << i for i, op in enumerate(self.block.markable) if op in replayed)
        return Point(found.replay_flops(self.seq_len), found.bytes_per_token, mask)

    def allowed(self, point: Point) -> bool:
        """Whether a policy is one of those compared: it replays no communication it may not."""
        free = sum(1 << i for i in free_marks(self.block, self.replay_communication))
        return point.replay | free == free

    def judge(self, point: Point) -> Verdict:
        """Whether a policy is on the front, on the hull, and beaten by another one."""
        allowed, costs = self.allowed(point), point[:2]
        return Verdict(
            point,
            allowed and any(other[:2] == costs for other in self.front),
            allowed and any(self.front[i][:2] == costs for i in self.hull),
            any(
                other.replay_flops <= point.replay_flops
                and other.bytes_per_token <= point.bytes_per_token
                and other[:2] != costs
                for other in self.front
            ),
        )

    def cheapest(self, budget_bytes_per_token: int) -> Point:
        """The policy of least replay that keeps at most so much.

        Raises ValueError that names the least possible where no policy does.
        """
        for point in self.front:
            if point.bytes_per_token <= budget_bytes_per_token:
                return point
        raise ValueError(
            f"budget_bytes_per_token = {budget_bytes_per_token}, but the least that a policy of "
            f"this block keeps is {self.front[-1].bytes_per_token}"
        )


@lru_cache(maxsize=64)
def frontier(
    block: Block,
    recipe: Recipe,
    *,
    dual_stash: bool = False,
    seq_len: int = 4096,
    replay_communication: bool = False,
) -> Frontier:
    """The frontier of a block, built up mark by mark.

    >>> from memmodel.configs import load
    >>> from memmodel.formats import recipe
    >>> from memmodel.graph import block
    >>> found = frontier(block(load("deepseek-v3"), "moe"), recipe("bf16"))
    >>> len(found.hull), found.presets["dsv3"].on_hull, found.presets["attn-replay"].dominated
    (12, True, True)
    """
    ops = [block.by_name[name] for name in block.markable]
    free = free_marks(block, replay_communication)
    # When a term can be decided, and until when a mark is asked for: the last mark it depends on.
    decided: list[list[Term]] = [[] for _ in ops]
    asked = [0] * len(ops)
    constant = 0
    for term in terms(block, recipe, dual_stash):
        involved = (*(term.triggers or ()), *(() if term.own is None else (term.own,)))
        if involved:
            decided[max(involved)].append(term)
            for i in involved:
                asked[i] = max(asked[i], *involved)
        else:
            constant += term.nbytes

    states = {0: [Point(0, constant, 0)]}  # marks that are still asked for -> partial front
    for i, op in enumerate(ops):
        flops = op.forward_flops(seq_len)
        still = sum(1 << j for j in range(i + 1) if asked[j] > i)
        grown: dict[int, list[Point]] = {}
        for state, points in states.items():
            for bit in (0, 1 << i) if i in free else (0,):
                replayed = state | bit
                kept = sum(term.nbytes for term in decided[i] if term.kept(replayed))
                grown.setdefault(replayed & still, []).extend(
                    Point(f + flops if bit else f, b + kept, mask | bit) for f, b, mask in points
                )
        states = {state: pareto(points) for state, points in grown.items()}
    (front,) = states.values()
    return Frontier(block, recipe, dual_stash, seq_len, replay_communication, tuple(front))


def preference(mask: int) -> tuple[int, int]:
    """Which of several policies of equal cost stands for all: the least in this order."""
    return mask.bit_count(), mask


def pareto(points: list[Point]) -> list[Point]:
    """The points that no other one beats, by rising replay; of equals one is left."""
    points.sort(key=lambda p: (p.replay_flops, p.bytes_per_token, preference(p.replay)))
    front: list[Point] = []
    for point in points:
        if not front or point.bytes_per_token < front[-1].bytes_per_token:
            front.append(point)
    return front


def lower_hull(front: tuple[Point, ...]) -> tuple[int, ...]:
    """Positions of the lower convex hull of a front, in whole numbers; collinear ones left out."""
    hull: list[int] = []
    for i, point in enumerate(front):
        while len(hull) > 1:
            a, b = front[hull[-2]], front[hull[-1]]
            # Left out unless the way over b turns upwards.
            if (b.replay_flops - a.replay_flops) * (point.bytes_per_token - a.bytes_per_token) > (
                point.replay_flops - a.replay_flops
            ) * (b.bytes_per_token - a.bytes_per_token):
                break
            hull.pop()
        hull.append(i)
    return tuple(hull)
