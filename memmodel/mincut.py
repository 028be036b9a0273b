"""The best policy at a given price of a byte, as a minimum cut: no policy is enumerated.

A cut splits the marks into saved (the source's side) and replayed (the sink's side). Replaying an
op cuts its edge from the source, at its FLOPs; saving it cuts the edges of what is then kept, at
the price of their bytes. Because keeping is local this is exact: the least cut is the Lagrangian
optimum over all 2^n policies, in whole numbers. Over the layers of a rank it takes one cut for
each kind and chunk, since a price takes the layers apart.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from memmodel.formats import Recipe
from memmodel.frontiers import Point, free_marks, lower_hull, terms
from memmodel.graph import Block

Node = int | str  # a mark, the two ends, or one of the helpers of terms that wait for a replay
SOURCE, SINK = "saved", "replayed"


class Cuts:
    """The cuts of one block: the same graph at any price.

    >>> from memmodel.configs import load
    >>> from memmodel.formats import recipe
    >>> from memmodel.graph import block
    >>> cuts = Cuts(block(load("deepseek-v3"), "moe"), recipe("bf16"))
    >>> cuts.best(Fraction(1600)).bytes_per_token  # at 1,600 FLOPs for a byte: dsv3
    256640

    Raises ValueError where networkx is missing.
    """

    def __init__(
        self,
        block: Block,
        recipe: Recipe,
        *,
        dual_stash: bool = False,
        seq_len: int = 4096,
        replay_communication: bool = False,
    ) -> None:
        try:
            import networkx as nx
        except ImportError:
            raise ValueError(
                "networkx is needed for minimum cuts and is not installed (pip install networkx)"
            ) from None
        self._networkx: Any = nx
        self.terms = terms(block, recipe, dual_stash)
        self.flops = [block.by_name[name].forward_flops(seq_len) for name in block.markable]
        self.free = free_marks(block, replay_communication)

    def best(self, byte_price: Fraction) -> Point:
        """The policy of least FLOPs + byte_price * bytes; of several any one, always the same."""
        graph = self._networkx.DiGraph()
        per_flop, per_byte = byte_price.denominator, byte_price.numerator
        for i, flops in enumerate(self.flops):
            # An edge without a capacity cannot be cut: what must be saved stays with the source.
            _add(graph, SOURCE, i, per_flop * flops if i in self.free else None)
        graph.add_node(SINK)
        for number, term in enumerate(self.terms):
            own = SOURCE if term.own is None else term.own
            if term.triggers is None:
                _add(graph, own, SINK, per_byte * term.nbytes)
                continue
            # The helper is on the sink's side as soon as one trigger is.
            helper = f"term {number}"
            _add(graph, own, helper, per_byte * term.nbytes)
            for trigger in term.triggers:
                _add(graph, helper, trigger, None)
        _, (_, replayed) = self._networkx.minimum_cut(graph, SOURCE, SINK)
        return self._point(sum(1 << i for i in self.free if i in replayed))

    def corners(self) -> tuple[Point, ...]:
        """The corners of the lower convex hull of all policies, by rising replay.

        Between two corners the price at which both are as good either shows a better policy, a
        corner in between, or proves that there is none: two cuts a corner.
        """
        most_flops, most_bytes = sum(self.flops), sum(term.nbytes for term in self.terms)
        # So low a price that FLOPs decide first and bytes among equals, and so high a one that it
        # is the other way round.
        first = self.best(Fraction(1, most_bytes + 1))
        last = self.best(Fraction(most_flops + 1))
        if first[:2] == last[:2]:
            return (first,)
        found = (first, *self._between(first, last), last)
        # A cut may also have found a policy in the middle of an edge.
        return tuple(found[i] for i in lower_hull(found))

    def _between(self, a: Point, b: Point) -> tuple[Point, ...]:
        price = Fraction(b.replay_flops - a.replay_flops, a.bytes_per_token - b.bytes_per_token)
        found = self.best(price)
        if _priced(found, price) == _priced(a, price):
            return ()
        return (*self._between(a, found), found, *self._between(found, b))

    def _point(self, mask: int) -> Point:
        flops = sum(flops for i, flops in enumerate(self.flops) if mask >> i & 1)
        return Point(flops, sum(term.nbytes for term in self.terms if term.kept(mask)), mask)


def _priced(point: Point, price: Fraction) -> Fraction:
    return point.replay_flops + price * point.bytes_per_token


def _add(graph: Any, a: Node, b: Node, capacity: int | None) -> None:
    """An edge; what is added twice is cut twice."""
    if capacity is None:
        graph.add_edge(a, b)
    elif graph.has_edge(a, b):
        graph[a][b]["capacity"] += capacity
    else:
        graph.add_edge(a, b, capacity=capacity)
