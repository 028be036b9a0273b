"""Stashes in flight: how many microbatches of each chunk a rank holds, along its order.

A stash is what one (chunk, microbatch) keeps for backward. It exists from its forward on and is
released when the weight gradient is done (release "W"), since a weight gradient reads the saved
inputs; release "I", at the input gradient, is the optimist's option. In an overlapped forward +
backward the new stash exists before the old one is released.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memmodel.orders import Step

RELEASES = ("W", "I")

Counts = tuple[int, ...]  # by chunk of a rank


def alive(steps: Iterable[Step], num_chunks: int, release: str = "W") -> list[Counts]:
    """Stashes alive during each step, per chunk: with those that it makes and those it releases.

    >>> from memmodel.orders import Size, one_f_one_b
    >>> alive(one_f_one_b(0, Size(pp=2, microbatches=3)), 1)
    [(1,), (2,), (2,), (2,), (2,), (1,)]
    """
    return list(_during(steps, num_chunks, "F", _releasing(release)))


def pending(steps: Iterable[Step], num_chunks: int) -> list[Counts]:
    """Output gradients held during each step because backward is split: from I up to W's end.

    PyTorch's split backward adds them to the stashes, and frees no stash before W either.
    """
    return list(_during(steps, num_chunks, "I", "W"))


def _during(steps: Iterable[Step], num_chunks: int, makes: str, releases: str) -> Iterator[Counts]:
    counts = [0] * num_chunks
    held = set()  # a whole backward (B) releases stashes, but no output gradient was held for it
    for step in steps:
        for kind, chunk, microbatch in step:
            if kind in makes:
                counts[chunk] += 1
                held.add((chunk, microbatch))
        yield tuple(counts)
        for kind, chunk, microbatch in step:
            if kind in releases and (chunk, microbatch) in held:
                counts[chunk] -= 1


def _releasing(release: str) -> str:
    if release not in RELEASES:
        raise ValueError(f"release = {release!r} is unknown; known are {', '.join(RELEASES)}")
    return "B" + release


def states(steps: Iterable[Step], num_chunks: int, release: str = "W") -> tuple[Counts, ...]:
    """Every state that a rank is ever in, once, in order of time."""
    return tuple(dict.fromkeys(_during(steps, num_chunks, "F", _releasing(release))))


def peak_candidates(
    steps: Iterable[Step], num_chunks: int, release: str = "W"
) -> tuple[Counts, ...]:
    """The few states that can be a rank's peak, whatever a chunk's stash weighs, in order of time.

    No peak falls on a state that another exceeds in every chunk. (Only where a chunk's stash has
    no bytes at all may such a state tie with the peak, and come first.)
    """
    releases = _releasing(release)
    counts = [0] * num_chunks
    tops: dict[Counts, None] = {}  # a set that remembers who came first
    grown = False
    for step in steps:
        for kind, chunk, _ in step:  # of an overlapped pair the forward comes first
            if kind == "F":
                counts[chunk] += 1
                grown = True
            elif kind in releases:
                if grown:
                    tops[tuple(counts)] = None
                    grown = False
                counts[chunk] -= 1
    most = max(map(sum, tops))  # nothing exceeds what has most stashes: often all of them
    return tuple(
        [top for top in tops if sum(top) == most or not any(_exceeds(other, top) for other in tops)]
    )


def _exceeds(counts: Counts, others: Counts) -> bool:
    return counts != others and all(a >= b for a, b in zip(counts, others, strict=True))
