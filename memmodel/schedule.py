"""Pipeline schedules by name: which sizes they take, what each rank runs, its peak, its bubble.

`orders` writes the programs, `inflight` counts the stashes along them, `timeline` puts them on a
clock. What is asked for again is remembered here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import NamedTuple

from memmodel import inflight, orders
from memmodel import timeline as clock
from memmodel.inflight import RELEASES, Counts, alive, pending
from memmodel.mesh import stage_map
from memmodel.orders import Action, Step
from memmodel.timeline import Timeline

__all__ = [
    "RELEASES",
    "SCHEDULES",
    "Action",
    "Kind",
    "Step",
    "Timeline",
    "alive",
    "check",
    "moments",
    "order",
    "peak",
    "peaks",
    "pending",
    "stages",
    "timeline",
]


@dataclass(frozen=True)
class Kind:
    """A schedule: where it puts the stages, and the program that each rank runs."""

    title: str  # as the papers write it
    placement: str  # one of mesh.PLACEMENTS
    program: Callable[[int, orders.Size], tuple[Step, ...]]  # of a rank
    default_virtual_stages: int = 1


SCHEDULES: dict[str, Kind] = {
    "single": Kind("one microbatch at a time", "linear", orders.single),
    "gpipe": Kind("GPipe", "linear", orders.gpipe),
    "1f1b": Kind("1F1B", "linear", orders.one_f_one_b),
    "interleaved": Kind("interleaved 1F1B", "interleaved", orders.interleaved),
    "zb1p": Kind("ZB1P", "linear", orders.zb1p),
    "zbv": Kind("ZBV", "v", orders.zbv, 2),
    "dualpipe": Kind("DualPipe", "bidirectional", orders.dualpipe),
    "dualpipev": Kind("DualPipeV", "v", orders.dualpipev, 2),
}


class _Run(NamedTuple):
    """A schedule at its sizes: the key of the caches below."""

    name: str
    size: orders.Size


def _run(name: str, pp: int, microbatches: int, virtual_stages: int | None) -> _Run:
    if virtual_stages is None:
        virtual_stages = _kind(name).default_virtual_stages
    return _Run(name, orders.Size(pp, microbatches, virtual_stages))


def _kind(name: str) -> Kind:
    if name not in tuple(SCHEDULES):  # a tuple also answers for what cannot be a key
        raise ValueError(f"schedule = {name!r} is unknown; known are {', '.join(SCHEDULES)}")
    return SCHEDULES[name]


def check(name: str, *, pp: int, microbatches: int, virtual_stages: int | None = None) -> None:
    """Raise ValueError, with what would be valid, unless the schedule runs at these sizes.

    With one rank there is no pipeline, and no minimum either.

    >>> check("dualpipev", pp=8, microbatches=10)
    Traceback (most recent call last):
    ValueError: microbatches = 10 is too few: dualpipev with pp = 8 needs at least 2*pp = 16
    """
    kind = _kind(name)
    size = _run(name, pp, microbatches, virtual_stages).size
    for field, value in size._asdict().items():
        if type(value) is not int or value < 1:
            raise ValueError(f"{field} = {value!r} must be an integer of at least 1")
    if kind.placement != "interleaved" and size.virtual_stages != kind.default_virtual_stages:
        raise ValueError(
            f"virtual_stages = {virtual_stages}: {name} has {kind.default_virtual_stages}; "
            "only interleaved takes another number"
        )
    if pp > 1:
        _check_microbatches(name, pp, microbatches)


def _check_microbatches(name: str, pp: int, microbatches: int) -> None:
    if name == "dualpipe" and pp % 2:
        raise ValueError(f"pp = {pp} is odd: dualpipe needs an even number of ranks")
    if name in ("dualpipe", "dualpipev") and microbatches < 2 * pp:
        raise ValueError(
            f"microbatches = {microbatches} is too few: {name} with pp = {pp} needs "
            f"at least 2*pp = {2 * pp}"
        )
    if name == "dualpipe" and microbatches % 2:
        raise ValueError(
            f"microbatches = {microbatches} is odd: dualpipe sends one half from each end, "
            "so it needs an even number"
        )
    rounds = max(1, microbatches // pp)
    if name == "interleaved" and microbatches % rounds:
        raise ValueError(
            f"microbatches = {microbatches}: interleaved with pp = {pp} runs them in {rounds} "
            f"rounds of equal size; the nearest multiples of pp are {rounds * pp} "
            f"and {(rounds + 1) * pp}"
        )


def stages(name: str, *, pp: int, virtual_stages: int | None = None) -> tuple[Counts, ...]:
    """Which stages each rank hosts, chunk by chunk; one stage in all when pp is 1.

    >>> stages("dualpipev", pp=2), stages("dualpipev", pp=1)
    (((0, 3), (1, 2)), ((0,),))
    """
    return _stages(_run(name, pp, 1, virtual_stages))


@lru_cache(maxsize=32)
def _stages(run: _Run) -> tuple[Counts, ...]:
    if run.size.pp == 1:
        return ((0,),)
    return stage_map(_kind(run.name).placement, run.size.pp, run.size.virtual_stages)


def order(
    name: str, *, pp: int, microbatches: int, virtual_stages: int | None = None
) -> tuple[tuple[Step, ...], ...]:
    """What each rank runs, step by step. Raises ValueError as `check` does.

    >>> [str(action) for (action,) in order("1f1b", pp=2, microbatches=3)[0]]
    ['F0.0', 'F0.1', 'B0.0', 'F0.2', 'B0.1', 'B0.2']
    """
    return _order(_run(name, pp, microbatches, virtual_stages))


@lru_cache(maxsize=32)
def _order(run: _Run) -> tuple[tuple[Step, ...], ...]:
    check(run.name, **run.size._asdict())
    return tuple([_steps(run, rank) for rank in range(run.size.pp)])


def _steps(run: _Run, rank: int) -> tuple[Step, ...]:
    """The order of one rank. Not cached: a peak needs it once, and orders can be long."""
    name, size = run
    check(name, **size._asdict())
    if type(rank) is not int or not 0 <= rank < size.pp:
        raise ValueError(f"rank = {rank!r} must be an integer from 0 to pp - 1 = {size.pp - 1}")
    return orders.single(0, size) if size.pp == 1 else SCHEDULES[name].program(rank, size)


def peak(
    name: str,
    rank: int,
    *,
    pp: int,
    microbatches: int,
    virtual_stages: int | None = None,
    chunk_bytes: tuple[int, ...],
    release: str = "W",
) -> Counts:
    """Stashes of each chunk of this rank alive at the first moment with the most bytes.

    `chunk_bytes` is the size of one stash of each chunk of the rank.

    >>> peak("dualpipev", 0, pp=8, microbatches=32, chunk_bytes=(3, 2))
    (16, 1)
    """
    run = _run(name, pp, microbatches, virtual_stages)
    found = _moments(run, rank, release, all(chunk_bytes))
    if len(chunk_bytes) != len(found[0]) or min(chunk_bytes) < 0:
        raise ValueError(
            f"chunk_bytes = {chunk_bytes!r}: rank {rank} of {name} has {len(found[0])} chunks, "
            "each of 0 bytes or more"
        )
    if len(found) == 1:
        return found[0]
    return max(found, key=lambda counts: sum(map(mul, counts, chunk_bytes)))


def peaks(
    name: str,
    *,
    pp: int,
    microbatches: int,
    virtual_stages: int | None = None,
    release: str = "W",
) -> tuple[Counts, ...]:
    """Stashes of each chunk of each rank at the first moment with the most stashes.

    >>> [sum(counts) for counts in peaks("dualpipev", pp=4, microbatches=20)]
    [9, 9, 9, 9]
    """
    run = _run(name, pp, microbatches, virtual_stages)
    check(name, **run.size._asdict())
    return tuple([max(_moments(run, rank, release, True), key=sum) for rank in range(pp)])


def moments(
    name: str, rank: int, *, pp: int, microbatches: int, virtual_stages: int | None = None
) -> tuple[Counts, ...]:
    """Stashes of each chunk of this rank alive at each moment that can be its peak in bytes.

    >>> moments("zbv", 1, pp=4, microbatches=8)
    ((6, 2), (7, 1))
    """
    return _moments(_run(name, pp, microbatches, virtual_stages), rank, "W", True)


@lru_cache(maxsize=4096)
def _moments(run: _Run, rank: int, release: str, few: bool) -> tuple[Counts, ...]:
    """The states that can be the peak of a rank: the `few` candidates, or all states."""
    found = inflight.peak_candidates if few else inflight.states
    return found(_steps(run, rank), len(_stages(run)[rank]), release)


def timeline(
    name: str,
    *,
    pp: int,
    microbatches: int,
    virtual_stages: int | None = None,
    costs: Mapping[str, float] | None = None,
) -> Timeline:
    """The schedule on a clock; costs per chunk as in `timeline.resolve_costs`, in any unit.

    >>> run = timeline("dualpipev", pp=8, microbatches=20)
    >>> run.makespan, run.bubble
    (134, 14)
    """
    resolved = tuple(clock.resolve_costs(costs).items())
    return _timeline(_run(name, pp, microbatches, virtual_stages), resolved)


@lru_cache(maxsize=32)
def _timeline(run: _Run, costs: tuple[tuple[str, float], ...]) -> Timeline:
    return clock.replay(_order(run), _stages(run), dict(costs))
