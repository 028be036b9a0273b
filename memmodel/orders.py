"""The orders in which a rank works: each pipeline schedule as a program for one rank.

A program is a list of tokens. "F0" is the forward of the next microbatch on the rank's chunk 0,
"B0" a whole backward, "I0" its input-gradient half and "W0" its weight-gradient half; plain "W" is
the oldest weight gradient still owed, on whichever chunk. A pair of tokens runs overlapped. Every
published schedule takes the microbatches of a chunk first in, first out, so that tokens alone say
which microbatch is meant, and a schedule is as short here as in the paper that drew it.

Sources: GPipe arXiv:1811.06965; 1F1B and interleaved 1F1B arXiv:2104.04473; ZB1P (there ZB-H1) and
ZBV arXiv:2401.10241; DualPipe arXiv:2412.19437; DualPipeV is DualPipe cut in half (Sea AI Lab).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

KINDS = ("F", "B", "I", "W")
Token = str | tuple[str, str]


class Action(NamedTuple):
    """One piece of work: `kind` F, B, I or W, on one chunk of the rank, for one microbatch.

    >>> str(Action("F", chunk=0, microbatch=3))
    'F0.3'
    """

    kind: str
    chunk: int
    microbatch: int

    def __str__(self) -> str:
        return f"{self.kind}{self.chunk}.{self.microbatch}"


Step = tuple[Action, ...]
"""One action, or a forward and then a backward that run overlapped."""


class Size(NamedTuple):
    """How many ranks, microbatches, and chunks a rank (where a schedule leaves that open)."""

    pp: int
    microbatches: int
    virtual_stages: int = 1


@lru_cache(maxsize=8)
def _deck(num_chunks: int, microbatches: int) -> dict[str, list[Action]]:
    """Every action once: ranks share them, since making them costs more than ordering them."""
    return {
        f"{kind}{chunk}": [Action(kind, chunk, microbatch) for microbatch in range(microbatches)]
        for kind in KINDS
        for chunk in range(num_chunks)
    }


def number(tokens: Iterable[Token], num_chunks: int, microbatches: int) -> tuple[Step, ...]:
    """Give each token its microbatch, first in, first out.

    >>> [str(action) for (action,) in number(["F0", "F0", "I0", "B0", "W"], 1, 2)]
    ['F0.0', 'F0.1', 'I0.0', 'B0.1', 'W0.0']
    """
    deck = _deck(num_chunks, microbatches)
    streams = {}
    for chunk in range(num_chunks):
        streams[f"F{chunk}"] = iter(deck[f"F{chunk}"])
        turn = iter(range(microbatches))  # shared: a microbatch is run backward by B or by I
        for token in (f"B{chunk}", f"I{chunk}"):
            streams[token] = map(deck[token].__getitem__, turn)
    owed: list[Action] = []  # weight gradients whose input gradient is done
    steps: list[Step] = []
    for work in tokens:
        if isinstance(work, tuple):
            steps.append((next(streams[work[0]]), next(streams[work[1]])))
        elif len(work) == 1:
            steps.append((owed.pop(0),))
        elif work[0] == "W":
            chunk = int(work[1:])
            first = next(index for index, action in enumerate(owed) if action.chunk == chunk)
            steps.append((owed.pop(first),))
        else:
            action = next(streams[work])
            steps.append((action,))
            if action.kind == "I":
                owed.append(deck[f"W{action.chunk}"][action.microbatch])
    return tuple(steps)


def single(_rank: int, size: Size) -> tuple[Step, ...]:
    """One microbatch in the whole pipeline at a time."""
    return number(["F0", "B0"] * size.microbatches, 1, size.microbatches)


def gpipe(_rank: int, size: Size) -> tuple[Step, ...]:
    """All forwards, then all backwards."""
    return number(["F0"] * size.microbatches + ["B0"] * size.microbatches, 1, size.microbatches)


def one_f_one_b(rank: int, size: Size) -> tuple[Step, ...]:
    """Fill the pipeline below this rank, then a backward for each forward."""
    pp, microbatches, _ = size
    warmup = min(pp - rank, microbatches)
    steady = ["B0", "F0"] * (microbatches - warmup)
    return number(["F0"] * warmup + steady + ["B0"] * warmup, 1, microbatches)


def interleaved(rank: int, size: Size) -> tuple[Step, ...]:
    """1F1B over several chunks a rank, a round of microbatches on each chunk in turn.

    A round has PP microbatches where PP divides their number, else M / (M // PP), as in PyTorch.
    """
    pp, microbatches, virtual_stages = size
    rounds = max(1, microbatches // pp)
    chunks = [chunk for chunk in range(virtual_stages) for _ in range(microbatches // rounds)]
    forwards = [f"F{chunk}" for chunk in chunks] * rounds
    backwards = [f"B{chunk}" for chunk in reversed(chunks)] * rounds
    to_last = (virtual_stages - 1) * (microbatches // rounds) + 2 * (pp - 1 - rank)
    warmup = min(to_last, len(forwards))
    steady = chain.from_iterable(zip(forwards[warmup:], backwards, strict=False))
    tokens = [*forwards[:warmup], *steady, *backwards[len(forwards) - warmup :]]
    return number(tokens, virtual_stages, microbatches)


def zb1p(rank: int, size: Size) -> tuple[Step, ...]:
    """1F1B whose weight gradients wait `rank` turns, so that they fill the drain."""
    pp, microbatches, _ = size
    warmup = min(pp - 1 - rank, microbatches)
    turns = []
    for turn in range(microbatches):
        turns += ["F0"] * (warmup + turn < microbatches) + ["I0"] + ["W"] * (turn >= rank)
    tokens = ["F0"] * warmup + turns + ["W"] * min(rank, microbatches)
    return number(tokens, 1, microbatches)


def zbv(rank: int, size: Size) -> tuple[Step, ...]:
    """Zero bubble on a V: as many stashes as 1F1B, and no bubble if F = I = W."""
    pp, microbatches, _ = size
    # The program is drawn for a full V. With fewer microbatches the surplus ones are left out.
    full = max(2 * pp - 1, microbatches)
    rounds, with_forward = full - pp, full - (2 * pp - 1 - rank)
    first, second = ["I0", "W"], ["F1", "I1", "W"]
    tokens = [
        *["F0"] * (2 * (pp - rank) - 1),
        *["F1", "F0"] * rank,
        *second * (pp - rank),
        *["F0", *first, *second] * with_forward,
        *[*first, *second] * (rounds - with_forward),
        *["I0", "I1"] * rank,
        *["I0", "W0"] * (pp - rank),
        *["W1"] * rank,
        *["W0"] * rank,
    ]
    steps = number(tokens, 2, full)
    return tuple([step for step in steps if step[0].microbatch < microbatches])


def _fold(rank: int, ranks: int, microbatches: int) -> tuple[Step, ...]:
    """The eight phases of DualPipe for a rank of a fold of `ranks` ranks.

    Chunk 0 meets its microbatches on the way to the fold, chunk 1 those that come back from it.
    """
    to_fold, to_ends = ranks - 1 - rank, rank + 1
    main: list[Token] = [("F0", "B1"), ("F1", "B0")] * (microbatches - 2 * ranks + to_ends)
    if rank == ranks - 1:
        main[:1] = ["F0", "B1"]  # overlapped, these two would only wait for one another
    drain = ["B1", "B0"] * to_ends
    drain[to_ends:] = [f"I{token[1]}" for token in drain[to_ends:]]
    turns: list[Token] = ["B1", ("F1", "B0")]
    tokens: list[Token] = [
        *["F0"] * (2 * to_fold),
        *["F0", "F1"] * to_ends,
        *["I1", "W", "F1"] * to_fold,
        *main,
        *turns * to_fold,
        *drain,
        *["W", "I0"] * to_fold,
        *["W"] * to_ends,
    ]
    return number(tokens, 2, microbatches)


def dualpipev(rank: int, size: Size) -> tuple[Step, ...]:
    """The model folded into a V over the ranks, forwards overlapped with backwards."""
    return _fold(rank, size.pp, size.microbatches)


def dualpipe(rank: int, size: Size) -> tuple[Step, ...]:
    """Two copies of the model, run from both ends at once.

    Chunk 0 is the copy that starts on rank 0 and sees the first half of the microbatches; chunk 1
    starts on the last rank and sees the others. The two directions meet in the middle as the two
    legs of a V do at its fold, and so each half of the ranks runs the fold's program.
    """
    pp, microbatches, _ = size
    half = microbatches // 2
    mirrored = rank >= pp // 2
    deck = _deck(2, microbatches)

    def place(action: Action) -> Action:
        chunk = action.chunk ^ mirrored
        return deck[f"{action.kind}{chunk}"][action.microbatch + half * chunk]

    steps = _fold(min(rank, pp - 1 - rank), pp // 2, half)
    return tuple([tuple([place(action) for action in step]) for step in steps])
