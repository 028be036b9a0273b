"""Schedules: published peaks and bubbles, a stored table of orders, and what must always hold."""

import json
import math
import os
import re
import time
from collections import Counter
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memmodel import schedule, timeline
from memmodel.schedule import Action, Step

GOLDENS = Path(__file__).parent / "goldens"
REFERENCE = json.loads((GOLDENS / "reference.json").read_text())["schedules_peak_stashes"]
NAMES = {
    "GPipe": "gpipe",
    "1F1B": "1f1b",
    "Interleaved1F1B_V2": "interleaved",
    "InterleavedZeroBubble_V1(ZB1P)": "zb1p",
    "ZBVZeroBubble": "zbv",
    "DualPipeV": "dualpipev",
}


def text(step: Step) -> str:
    return "+".join(map(str, step))


# --- published numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", REFERENCE)
def test_peaks_and_bubbles_are_those_of_the_reference(case: str) -> None:
    title, *sizes = case.split("|")
    pp, virtual_stages, microbatches = (int(size[1:]) for size in sizes)
    want, name = REFERENCE[case], NAMES[title]
    size: dict[str, Any] = {
        "pp": pp,
        "microbatches": microbatches,
        "virtual_stages": virtual_stages,
    }
    for release in schedule.RELEASES:
        peaks = schedule.peaks(name, release=release, **size)
        for rank, counts in enumerate(peaks):
            key = f"release_{release}_overlap_inclusive"
            assert sum(counts) == want["peaks_per_rank"][str(rank)][key]
    run = schedule.timeline(name, **size)
    assert (run.bubble, run.makespan) == (want["bubble_time"], want["makespan"])
    assert set(run.work) == {want["work_per_rank"]}


@pytest.mark.parametrize("pp", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("extra", [0, 1, 2, 3, 7, 16, 33])
def test_dualpipev_holds_two_stashes_a_rank_and_one(pp: int, extra: int) -> None:
    peaks = schedule.peaks("dualpipev", pp=pp, microbatches=2 * pp + extra)
    assert peaks == tuple((2 * pp - rank, 1 + rank) for rank in range(pp))


@pytest.mark.parametrize("pp", [2, 4, 8, 16])
@pytest.mark.parametrize("extra", [0, 2, 6, 16, 40])
def test_dualpipe_holds_one_stash_a_rank_and_one(pp: int, extra: int) -> None:
    peaks = schedule.peaks("dualpipe", pp=pp, microbatches=2 * pp + extra)
    assert [sum(counts) for counts in peaks] == [pp + 1] * pp
    assert peaks[::-1] == tuple(counts[::-1] for counts in peaks)


@pytest.mark.parametrize("pp", [2, 3, 8])
@pytest.mark.parametrize("microbatches", [1, 2, 5, 8, 20])
def test_linear_schedules_hold_what_the_literature_says(pp: int, microbatches: int) -> None:
    def held(name: str) -> list[int]:
        peaks = schedule.peaks(name, pp=pp, microbatches=microbatches)
        return [sum(counts) for counts in peaks]

    assert held("single") == [1] * pp
    assert held("gpipe") == [microbatches] * pp
    assert held("1f1b") == [min(microbatches, pp - rank) for rank in range(pp)]
    assert held("zb1p") == [min(microbatches, pp)] * pp


@pytest.mark.parametrize("name", ["dualpipe", "dualpipev"])
@pytest.mark.parametrize("pp", [2, 4, 8, 16])
@pytest.mark.parametrize("costs", [{}, {"FB": 2.5}, {"F": 2, "I": 2, "W": 2, "FB": 5}])
def test_dualpipe_bubbles_follow_deepseek(name: str, pp: int, costs: dict[str, float]) -> None:
    """(PP - 1)(F&B + B - 3W) for the V, PP/2 in place of PP for two directions (their README)."""
    run = schedule.timeline(name, pp=pp, microbatches=4 * pp, costs=costs)
    cost = timeline.resolve_costs(costs)
    ranks = pp if name == "dualpipev" else pp // 2
    assert run.bubble == (ranks - 1) * (cost["FB"] + cost["B"] - 3 * cost["W"])


def test_single_runs_one_microbatch_at_a_time() -> None:
    run = schedule.timeline("single", pp=4, microbatches=3)
    assert run.makespan == 3 * 4 * 3
    assert all(a.end <= b.start for a, b in pairwise(sorted(run.cells, key=lambda c: c.start)))


@pytest.mark.parametrize("name", schedule.SCHEDULES)
def test_one_rank_is_no_pipeline(name: str) -> None:
    assert schedule.stages(name, pp=1) == ((0,),)
    (steps,) = schedule.order(name, pp=1, microbatches=2)
    assert [text(step) for step in steps] == ["F0.0", "B0.0", "F0.1", "B0.1"]
    assert schedule.peaks(name, pp=1, microbatches=2) == ((1,),)
    assert schedule.timeline(name, pp=1, microbatches=2).bubble == 0


# --- a stored table of orders --------------------------------------------------------------------

CASES = [
    *[
        (name, pp, m, 1)
        for name in ("single", "gpipe", "1f1b", "zb1p")
        for pp, m in ((2, 1), (3, 2), (4, 8), (8, 20), (16, 64))
    ],
    *[
        ("interleaved", *size)
        for size in (
            (2, 4, 2),
            (3, 2, 3),
            (4, 8, 1),
            (4, 10, 2),
            (4, 8, 4),
            (8, 16, 2),
            (16, 64, 2),
        )
    ],
    *[("zbv", pp, m, 2) for pp, m in ((2, 1), (3, 4), (4, 8), (8, 20), (16, 64))],
    *[("dualpipe", pp, m, 1) for pp, m in ((2, 4), (4, 8), (4, 14), (8, 20), (16, 64))],
    *[("dualpipev", pp, m, 2) for pp, m in ((2, 4), (3, 7), (4, 8), (8, 20), (16, 64))],
]


def table() -> list[dict[str, Any]]:
    """Orders in full; above eight ranks a digest of them, since the file is to be read."""
    rows = []
    for name, pp, microbatches, virtual_stages in CASES:
        size: dict[str, Any] = {
            "pp": pp,
            "microbatches": microbatches,
            "virtual_stages": virtual_stages,
        }
        ranks = [" ".join(map(text, steps)) for steps in schedule.order(name, **size)]
        run = schedule.timeline(name, **size)
        digest = sha256("\n".join(ranks).encode()).hexdigest()
        rows.append(
            {
                "schedule": name,
                **size,
                "peaks": [list(counts) for counts in schedule.peaks(name, **size)],
                "peaks_released_at_I": [
                    list(counts) for counts in schedule.peaks(name, release="I", **size)
                ],
                "makespan": run.makespan,
                "bubble": run.bubble,
                "order": ranks if pp <= 8 else digest,
            }
        )
    return rows


def test_orders_are_those_of_the_stored_table() -> None:
    """Set MEMMODEL_UPDATE_GOLDENS=1 to write the table anew, and read the diff."""
    path = GOLDENS / "schedules.json"
    rows = table()
    if os.environ.get("MEMMODEL_UPDATE_GOLDENS"):
        lines = ",\n".join(json.dumps(row) for row in rows)
        path.write_text(f"[\n{lines}\n]\n")
    for row, stored in zip(rows, json.loads(path.read_text()), strict=True):
        assert row == stored


# --- what holds for any schedule and size ---------------------------------------------------------


@st.composite
def sized(draw: st.DrawFn, most_ranks: int = 9) -> dict[str, Any]:
    name = draw(st.sampled_from(list(schedule.SCHEDULES)))
    pp = draw(st.integers(1, most_ranks))
    virtual_stages = schedule.SCHEDULES[name].default_virtual_stages
    least = 1
    if name == "dualpipe":
        pp += pp % 2
    if name in ("dualpipe", "dualpipev"):
        least = 2 * pp
    microbatches = draw(st.integers(least, least + 24))
    if name == "dualpipe":
        microbatches += microbatches % 2
    if name == "interleaved":
        virtual_stages = draw(st.integers(1, 4))
        rounds = max(1, microbatches // pp)
        microbatches -= microbatches % rounds
    size = {"pp": pp, "microbatches": microbatches, "virtual_stages": virtual_stages}
    return {"name": name, **size}


costs = st.fixed_dictionaries(
    {},
    optional={
        kind: st.fractions(Fraction(1, 4), 4, max_denominator=4).map(float)
        for kind in timeline.UNIT_COSTS
    },
)


@given(sized())
@settings(deadline=None, max_examples=40)
def test_every_microbatch_passes_each_chunk_once_forward_and_once_backward(
    case: dict[str, Any],
) -> None:
    run = schedule.timeline(**case)
    hosted = schedule.stages(case["name"], pp=case["pp"], virtual_stages=case["virtual_stages"])
    for steps, chunks in zip(run.orders, hosted, strict=True):
        done = Counter(str(action) for step in steps for action in step)
        assert set(done.values()) == {1}
        shape = Counter(re.sub(r"\..*", "", key) for key in done)
        for chunk in range(len(chunks)):
            forwards = shape[f"F{chunk}"]
            # Two directions: a chunk sees half of the microbatches, all of them otherwise.
            halves = 2 if case["name"] == "dualpipe" and case["pp"] > 1 else 1
            assert forwards == case["microbatches"] // halves
            assert shape[f"B{chunk}"] + shape[f"I{chunk}"] == forwards
            assert shape[f"I{chunk}"] == shape[f"W{chunk}"]
        kinds = ["".join(action.kind for action in step) for step in steps]
        assert set(kinds) <= {"F", "B", "I", "W", "FB"}


@given(sized(), costs)
@settings(deadline=None, max_examples=40)
def test_the_clock_respects_every_dependency_and_wastes_no_time(
    case: dict[str, Any], costs: dict[str, float]
) -> None:
    run = schedule.timeline(**case, costs=costs)
    cost = timeline.resolve_costs(costs)
    hosted = schedule.stages(case["name"], pp=case["pp"], virtual_stages=case["virtual_stages"])
    last = max(max(chunks) for chunks in hosted)
    two_ways = case["name"] == "dualpipe" and case["pp"] > 1
    ends: dict[tuple[str, int, int], float] = {}  # "F", "I" or "W", stage, microbatch
    starts: dict[tuple[str, int, int], float] = {}
    for cell in run.cells:
        for kind, chunk, microbatch in cell.actions:
            stage = hosted[cell.rank][chunk]
            # A microbatch belongs to one direction, so stage and microbatch name the place.
            assert not two_ways or (chunk == 1) == (microbatch >= case["microbatches"] // 2)
            for part in {"F": "F", "I": "I", "W": "W", "B": "IW"}[kind]:
                assert (part, stage, microbatch) not in ends
                ends[part, stage, microbatch] = cell.end
                starts[part, stage, microbatch] = cell.start

    def input_ready(kind: str, stage: int, microbatch: int) -> float:
        if kind == "F":
            return ends["F", stage - 1, microbatch] if stage else 0
        if kind == "I":
            return ends["F" if stage == last else "I", min(stage + 1, last), microbatch]
        return 0

    for (kind, stage, microbatch), start in starts.items():
        assert start >= input_ready(kind, stage, microbatch)
        if kind == "I":
            assert start >= ends["F", stage, microbatch]
        if kind == "W":
            assert ends["W", stage, microbatch] >= ends["I", stage, microbatch]
    for rank, steps in enumerate(run.orders):
        free: float = 0
        for index, step in enumerate(steps):
            ready = [
                input_ready("I" if kind == "B" else kind, hosted[rank][chunk], microbatch)
                for kind, chunk, microbatch in step
            ]
            assert run.start[rank][index] == max(free, *ready)  # one at a time, no dawdling
            duration = cost["FB"] if len(step) == 2 else cost[step[0].kind]
            free = run.end[rank][index]
            assert math.isclose(free, run.start[rank][index] + duration)
        busy = math.fsum(b - a for a, b in zip(run.start[rank], run.end[rank], strict=True))
        assert math.isclose(run.work[rank], busy)
        assert math.isclose(run.work[rank] + run.bubbles[rank], run.makespan)
    # Where neither overlap nor an undivided backward saves time, all ranks have the same to do.
    plain = schedule.timeline(**case, costs={kind: cost[kind] for kind in "FIW"})
    assert len({round(work, 6) for work in plain.work}) == 1


def brute_force(
    steps: tuple[Step, ...], chunk_bytes: tuple[int, ...], release: str
) -> tuple[int, ...]:
    """The peak from first principles: a list of what exists, and a look at it after each event."""
    events: list[tuple[bool, int, int]] = []  # comes to life?, chunk, microbatch
    for step in steps:
        events += [(True, a.chunk, a.microbatch) for a in step if a.kind == "F"]
        events += [(False, a.chunk, a.microbatch) for a in step if a.kind in ("B", release)]
    there: list[tuple[int, int]] = []
    best, most = (0,) * len(chunk_bytes), -1
    for born, chunk, microbatch in events:
        if born:
            there.append((chunk, microbatch))
        else:
            there.remove((chunk, microbatch))
        held = 0
        for kept, _ in there:
            held += chunk_bytes[kept]
        if born and held > most:
            most = held
            best = tuple([sum(kept == c for kept, _ in there) for c in range(len(chunk_bytes))])
    assert there == []  # everything is released in the end
    return best


@given(sized(), st.data())
@settings(deadline=None, max_examples=100)
def test_peaks_are_those_of_a_brute_force_replay(case: dict[str, Any], data: st.DataObject) -> None:
    name, size = case["name"], {key: case[key] for key in case if key != "name"}
    release = data.draw(st.sampled_from(schedule.RELEASES))
    rank = data.draw(st.integers(0, size["pp"] - 1))
    steps = schedule.order(name, **size)[rank]
    chunks = len(schedule.stages(name, pp=size["pp"], virtual_stages=size["virtual_stages"])[rank])
    # Few values, with zero among them: ties must go to the first moment, and chunks may be empty.
    drawn = data.draw(st.lists(st.integers(0, 3), min_size=chunks, max_size=chunks))
    chunk_bytes = tuple(drawn)
    found = schedule.peak(name, rank, chunk_bytes=chunk_bytes, release=release, **size)
    if any(chunk_bytes):
        assert found == brute_force(steps, chunk_bytes, release)
    ones = (1,) * chunks
    assert schedule.peaks(name, release=release, **size)[rank] == brute_force(steps, ones, release)


@given(sized(), costs, st.sampled_from(schedule.RELEASES))
@settings(deadline=None, max_examples=40)
def test_spans_tell_the_same_story_as_the_counts(
    case: dict[str, Any], costs: dict[str, float], release: str
) -> None:
    run = schedule.timeline(**case, costs=costs)
    for rank, steps in enumerate(run.orders):
        chunks = 1 + max(action.chunk for step in steps for action in step)
        spans = run.spans(rank, release=release)
        for span in spans:
            for index, kinds in (
                (span.forward, "F"),
                (span.backward, "BI"),
                (span.weight, "BW"),
            ):
                assert any(
                    (chunk, microbatch) == (span.chunk, span.microbatch) and kind in kinds
                    for kind, chunk, microbatch in steps[index]
                )
        for held, levels in (
            (schedule.alive(steps, chunks, release), timeline.levels(spans, chunks)),
            (schedule.pending(steps, chunks), timeline.levels(run.gradient_spans(rank), chunks)),
        ):
            for index, counts in enumerate(held):
                before = [found for time, found in levels if time <= run.start[rank][index]]
                assert counts == (before[-1] if before else (0,) * chunks)
            if levels:
                assert levels[-1][1] == (0,) * chunks


def test_gradients_wait_only_where_backward_is_split() -> None:
    for name in ("single", "gpipe", "1f1b", "interleaved"):
        assert not schedule.timeline(name, pp=4, microbatches=8).gradient_spans(0)
    steps = schedule.order("zb1p", pp=8, microbatches=20)[7]
    assert max(schedule.pending(steps, 1)) == (8,)  # the last rank: all it holds, it holds for W
    steps = schedule.order("zb1p", pp=8, microbatches=20)[0]
    assert max(schedule.pending(steps, 1)) == (1,)


def test_an_order_that_cannot_run_is_named() -> None:
    orders = (
        ((Action("B", 0, 0),), (Action("F", 0, 0),)),
        ((Action("F", 0, 0),), (Action("B", 0, 0),)),
    )
    with pytest.raises(ValueError, match=r"rank 0 waits for ever before B0\.0"):
        timeline.replay(orders, ((0,), (1,)), timeline.resolve_costs())


# --- errors say what would be valid ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (("dualpipev", 8, 15, None), "microbatches = 15 .* dualpipev with pp = 8 .* 2*pp = 16"),
        (("dualpipe", 8, 14, None), "microbatches = 14 .* dualpipe with pp = 8 .* 2*pp = 16"),
        (("dualpipe", 7, 20, None), "pp = 7 is odd: dualpipe needs an even number"),
        (("dualpipe", 8, 21, None), "microbatches = 21 is odd: dualpipe"),
        (("interleaved", 4, 9, 2), "microbatches = 9: interleaved with pp = 4 .* 8 and 12"),
        (("1f1b", 4, 8, 2), "virtual_stages = 2: 1f1b has 1; only interleaved"),
        (("dualpipev", 4, 8, 1), "virtual_stages = 1: dualpipev has 2"),
        (("interleaved", 4, 8, 0), "virtual_stages = 0 must be an integer of at least 1"),
        (("1f1b", 0, 8, None), "pp = 0 must be an integer of at least 1"),
        (("1f1b", 4, -1, None), "microbatches = -1 must be an integer of at least 1"),
        (("1f1b", 4, True, None), "microbatches = True must be an integer"),
        (("1f1b", 4, 8.0, None), "microbatches = 8.0 must be an integer"),
        (("1f1b", "4", 8, None), "pp = '4' must be an integer"),
        (("1F1B", 4, 8, None), "schedule = '1F1B' is unknown; known are single, gpipe, 1f1b"),
        ((["1f1b"], 4, 8, None), "schedule = .* is unknown"),
    ],
)
def test_bad_sizes_are_refused_with_what_would_be_valid(
    case: tuple[Any, Any, Any, Any], message: str
) -> None:
    name, pp, microbatches, virtual_stages = case
    with pytest.raises(ValueError, match=message.replace("2*pp", r"2\*pp")):
        schedule.check(name, pp=pp, microbatches=microbatches, virtual_stages=virtual_stages)


def test_other_bad_arguments_are_refused_too() -> None:
    size: dict[str, Any] = {"pp": 4, "microbatches": 8}
    with pytest.raises(ValueError, match="dualpipev with pp = 8 needs at least"):
        schedule.order("dualpipev", pp=8, microbatches=4)
    with pytest.raises(ValueError, match=r"rank = 4 must be an integer from 0 to pp - 1 = 3"):
        schedule.peak("1f1b", 4, chunk_bytes=(1,), **size)
    with pytest.raises(ValueError, match=r"chunk_bytes = .* has 2 chunks"):
        schedule.peak("dualpipev", 0, chunk_bytes=(1,), **size)
    with pytest.raises(ValueError, match=r"chunk_bytes = .* of 0 bytes or more"):
        schedule.peak("1f1b", 0, chunk_bytes=(-1,), **size)
    with pytest.raises(ValueError, match="release = 'B' is unknown; known are W, I"):
        schedule.peak("1f1b", 0, chunk_bytes=(1,), release="B", **size)
    with pytest.raises(ValueError, match="costs: 'f' is unknown; known are F, I, W, B, FB"):
        schedule.timeline("1f1b", costs={"f": 1}, **size)
    for bad in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"costs: W = .* must be finite and above 0"):
            schedule.timeline("1f1b", costs={"W": bad}, **size)
    wrong: Any
    for wrong in (True, "1"):
        with pytest.raises(ValueError, match=r"costs: F = .* must be a number"):
            schedule.timeline("1f1b", costs={"F": wrong}, **size)


def test_many_ranks_or_chunks_take_no_more_than_their_share_of_time() -> None:
    start = time.process_time()
    run = schedule.timeline("1f1b", pp=2**14, microbatches=2)
    assert run.makespan == 3 * (2 + 2**14 - 1)
    assert set(schedule.peaks("1f1b", pp=2**14, microbatches=2)[:-1]) == {(2,)}
    found = schedule.moments("interleaved", 32, pp=64, microbatches=128, virtual_stages=128)
    assert {sum(counts) for counts in found} == {127 * 64 + 2 * 31 + 1}
    assert time.process_time() - start < 10


@pytest.mark.parametrize("pp", [2, 3, 4, 8])
def test_few_microbatches_run_where_no_minimum_is_stated(pp: int) -> None:
    for name in ("single", "gpipe", "1f1b", "zb1p", "zbv"):
        for microbatches in range(1, 2 * pp):
            run = schedule.timeline(name, pp=pp, microbatches=microbatches)
            work = 3 * microbatches * schedule.SCHEDULES[name].default_virtual_stages
            assert set(run.work) == {work}
