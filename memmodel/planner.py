"""Every policy of a block, priced exactly and at once: 2^19 of them in about a tenth of a second.

Keeping is a local question, so the bytes of all policies are a sum of a few masks over one array
of policies. What no other policy beats is then one sort and one running minimum. `frontiers` finds
the same front without pricing anything twice; this is the plain way, and the command line's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memmodel.formats import Recipe
from memmodel.frontiers import Frontier, Point, free_marks, preference, terms
from memmodel.graph import Block

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

MOST = 2**62  # of the bytes or FLOPs of one token: above, 64-bit integers are not exact


def price(
    block: Block,
    recipe: Recipe,
    *,
    dual_stash: bool = False,
    seq_len: int = 4096,
    replay_communication: bool = False,
) -> tuple[Ints, Ints, Ints]:
    """All policies of a block: (replayed marks, kept bytes, replayed FLOPs), per token.

    Bit i of a policy is set where op i of `Block.markable` is replayed. Three arrays of one length.

    >>> from memmodel.configs import load
    >>> from memmodel.formats import recipe
    >>> from memmodel.graph import block
    >>> moe = block(load("deepseek-v3"), "moe")
    >>> policies, kept, flops = price(moe, recipe("bf16"), replay_communication=True)
    >>> len(policies), int(kept[0]), int(kept[-1])
    (524288, 457360, 14336)

    Raises ValueError where numpy is missing, and for a block out of the range of 64-bit integers.
    """
    try:
        import numpy as np
    except ImportError:
        raise ValueError(
            "numpy is needed to price all policies of a block and is not installed "
            "(pip install numpy)"
        ) from None

    found = terms(block, recipe, dual_stash)
    op_flops = [block.by_name[name].forward_flops(seq_len) for name in block.markable]
    if max(sum(op_flops), sum(term.nbytes for term in found)) >= MOST:
        raise ValueError("the block has more than 2^62 bytes or FLOPs per token: out of range")

    policies = flops = np.zeros(1, np.int64)
    for i in free_marks(block, replay_communication):
        policies = np.concatenate((policies, policies | 1 << i))
        flops = np.concatenate((flops, flops + op_flops[i]))
    marks = policies.astype(np.int32)  # half the memory traffic of what follows
    kept = np.zeros(len(policies), np.int64)
    for term in found:
        saved = 0 if term.own is None else 1 << term.own
        triggers = sum(1 << i for i in term.triggers or ())
        mask = marks & saved == 0
        if term.triggers is not None:
            mask &= marks & triggers != 0
        kept += mask * np.int64(term.nbytes)
    return policies, kept, flops


def frontier(
    block: Block,
    recipe: Recipe,
    *,
    dual_stash: bool = False,
    seq_len: int = 4096,
    replay_communication: bool = False,
) -> Frontier:
    """The frontier of a block, from the price of every policy. Raises as `price` does."""
    policies, kept, flops = price(
        block,
        recipe,
        dual_stash=dual_stash,
        seq_len=seq_len,
        replay_communication=replay_communication,
    )
    import numpy as np

    order = np.argsort(flops, kind="stable")
    least = np.minimum.accumulate(kept[order])
    # The first of each new minimum, and of equal replay the last, which keeps least.
    better = order[np.flatnonzero(np.diff(least, prepend=least[0] + 1))]
    last = np.append(np.diff(flops[better]) > 0, True)
    front_flops, front_kept = flops[better][last], kept[better][last]

    # Several policies may cost the same: of them the one with the fewest replayed ops stands in
    # the front (see `preference`).
    place = np.searchsorted(front_flops, flops).clip(max=len(front_flops) - 1)
    equal = np.flatnonzero((front_flops[place] == flops) & (front_kept[place] == kept))
    chosen: dict[int, int] = {}
    for at, mask in zip(place[equal].tolist(), policies[equal].tolist(), strict=True):
        chosen[at] = min(chosen.get(at, mask), mask, key=preference)
    front = zip(front_flops.tolist(), front_kept.tolist(), strict=True)
    points = tuple(Point(f, b, chosen[at]) for at, (f, b) in enumerate(front))
    return Frontier(block, recipe, dual_stash, seq_len, replay_communication, points)
