"""The figures of the pipeline chapter read back: cells, stashes, watermarks and points."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import cast

import pytest
from contrast import contrast
from geometry import by_id, check_figure

from memmodel import schedule
from memmodel.figures import fold, get, grid, lanes, memory, pareto, pipeline
from memmodel.formats import Number
from memmodel.ledger import account, rank_ledger
from memmodel.palette import PALETTE
from memmodel.plan import Plan
from memmodel.scene import Group, Line, Mark, Path, Rect, Scene, Text, flatten

NAMES = tuple(schedule.SCHEDULES)
CLOSE = 1e-6


def groups(scene: Scene, knob: str) -> list[Group]:
    """What can be clicked to set this knob."""
    return [mark for mark in scene.marks if isinstance(mark, Group) and mark.knob == knob]


def ids(marks: tuple[Mark, ...]) -> set[str]:
    return {mark.id for mark in flatten(marks) if mark.id}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["schedule", "fold", "step-memory", "pareto"])
def test_geometry_of_many_states(name: str) -> None:
    assert check_figure(get(name), limit=140) >= 100


# --- the schedule ------------------------------------------------------------------------------


def teeth(scene: Scene) -> list[tuple[int, str, float, float]]:
    """(rank, role, left, right) of every cell of the grid, read from its combs."""
    found = []
    roles = {grid.role(kind, chunk) for kind in grid.KINDS for chunk in (0, 1)}
    for mark in scene.marks:
        if isinstance(mark, Path) and mark.role in roles:
            top = min(y for _, y in mark.points)
            if top < pipeline.GRID + pipeline.GRID_HIGH:
                rank = int((top - pipeline.GRID) // pipeline.MOST_ROW)
                found += [
                    (rank, mark.role, mark.points[at][0], mark.points[at + 2][0])
                    for at in range(0, len(mark.points), 4)
                ]
    return sorted(found)


def expected_teeth(name: str) -> list[tuple[int, str, float, float]]:
    """The same from the timeline."""
    run = grid.Run(name, 8, 20).timeline
    scale = (grid.RIGHT - grid.LEFT) / run.makespan
    words = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}
    return sorted(
        (
            cell.rank,
            words[action.kind] + (" soft" if action.chunk == 0 else ""),
            grid.LEFT + cell.start * scale,
            grid.LEFT + cell.end * scale - min(0.6, (cell.end - cell.start) * scale / 4),
        )
        for cell in run.cells
        for action in cell.actions
    )


def same(
    one: list[tuple[int, str, float, float]], other: list[tuple[int, str, float, float]]
) -> bool:
    """Whether two grids have the same cells."""
    return len(one) == len(other) and all(
        a[:2] == b[:2] and abs(a[2] - b[2]) < CLOSE and abs(a[3] - b[3]) < CLOSE
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_piece_of_work_is_a_cell_of_the_grid(name: str) -> None:
    drawn, right = teeth(get("schedule").scene(schedule=name)), expected_teeth(name)
    assert same(drawn, right)
    rank, role, left, end = drawn[5]
    assert not same([*drawn[:5], (rank, role, left, end + 1), *drawn[6:]], right)


def test_zoomed_in_every_cell_carries_its_microbatch() -> None:
    scene = get("schedule").scene(zoom="8", at="40")
    run = grid.Run("dualpipev", 8, 20)
    seen = grid.window(run.timeline.makespan, 8, 40)
    shown = [
        str(action.microbatch)
        for cell in run.timeline.cells
        if seen.shows(cell.start, cell.end) and seen.x(cell.end) - seen.x(cell.start) > 20
        for action in cell.actions
    ]
    drawn = [
        mark.text
        for mark in flatten(scene.marks)
        if isinstance(mark, Text)
        and not mark.id
        and pipeline.GRID < mark.y < pipeline.GRID + pipeline.GRID_HIGH
    ]
    assert sorted(drawn) == sorted(shown)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (4, 8), (8, 20), (16, 32)])
def test_lanes_are_the_stashes_alive(name: str, ranks: int, microbatches: int) -> None:
    run = grid.Run(name, ranks, microbatches)
    virtual_stages = 2 if name == "interleaved" else None
    peaks = schedule.peaks(name, pp=ranks, microbatches=microbatches, virtual_stages=virtual_stages)
    for rank in range(ranks):
        found = lanes.kept(run, rank, "W", False)
        assert found.peak == peaks[rank] + (0,) * (2 - len(peaks[rank]))
        assert {bar.lane for bar in found.bars} == set(range(sum(found.peak)))
        for lane in range(found.lanes):
            spans = sorted(bar.span[2:4] for bar in found.bars if bar.lane == lane)
            assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_rank_0_of_dualpipev_holds_17_bars_at_its_peak() -> None:
    scene = get("schedule").scene()
    bars = [mark for mark in flatten(scene.marks) if getattr(mark, "id", "").startswith("stash-")]
    assert len(bars) == 40
    assert len({cast("Rect", bar).y for bar in bars}) == 17
    time = lanes.kept(grid.Run("dualpipev", 8, 20), 0, "W", False).time
    x = grid.window(134, 1, 0).x(time) + 1
    alive = [bar for bar in map(_rect, bars) if bar.x <= x < bar.x + bar.width]
    assert sorted(bar.role for bar in alive) == ["activations"] + ["activations soft"] * 16
    assert "17 stashes (16 of chunk 0, 1 of chunk 1)" in scene.status


def _rect(mark: Mark) -> Rect:
    assert isinstance(mark, Rect)
    return mark


def test_the_count_is_drawn_to_its_peak() -> None:
    scene = get("schedule").scene(rank="3")
    line = cast("Line", by_id(scene, "peak"))
    bottom = pipeline.COUNT + pipeline.COUNT_HIGH
    assert (bottom - line.y1) / pipeline.COUNT_HIGH == pytest.approx(17 / 17)
    assert cast("Text", by_id(scene, "value-peak")).text == "17"
    bands = [
        mark
        for mark in scene.marks
        if isinstance(mark, Path) and mark.closed and mark.role.startswith("activations")
    ]
    tops = [min(y for _, y in band.points) for band in bands]
    assert min(tops) == pytest.approx(line.y1)


def test_a_click_on_a_bar_shows_its_forward_and_its_backward() -> None:
    figure = get("schedule")
    picked = [group for group in groups(figure.scene(), "stash") if group.id.startswith("pick-")]
    assert {group.value for group in picked} >= {f"0.{at}" for at in range(20)}
    run = grid.Run("dualpipev", 8, 20).timeline
    seen = grid.window(run.makespan, 1, 0)
    for group in picked:
        scene = figure.scene(**group.sets)
        span = next(s for s in run.spans(0) if f"{s.chunk}.{s.microbatch}" == group.value)
        for kinds, step in (("F", span.forward), ("BI", span.backward), ("BW", span.weight)):
            for where in ("grid", "strip"):
                frame = next(
                    mark
                    for kind in kinds
                    for mark in flatten(scene.marks)
                    if isinstance(mark, Rect) and mark.id == f"chosen-{where}-{kind}"
                )
                assert frame.x == pytest.approx(seen.x(run.start[0][step]))
        strong = [
            bar.id
            for bar in flatten(scene.marks)
            if isinstance(bar, Rect) and bar.id.startswith("stash-") and not bar.faint
        ]
        assert strong == [f"stash-{group.value}"]
        again = next(other for other in groups(scene, "stash") if other.id == group.id)
        assert again.pressed
        assert again.value == ""


def test_a_click_on_a_piece_of_work_shows_its_bar() -> None:
    figure, state = get("schedule"), {"zoom": "8", "at": "30", "rank": "2"}
    work = [
        group for group in groups(figure.scene(**state), "stash") if group.id.startswith("work")
    ]
    assert {group.id[5] for group in work} >= {"F", "B", "I", "W"}
    for group in work:
        scene = figure.scene(**state | group.sets)
        kind, chunk, microbatch = group.id[5], group.id[6], group.id.partition(".")[2]
        assert group.value == f"{chunk}.{microbatch}"
        assert f"Microbatch {microbatch}, chunk {chunk}:" in scene.status
        assert {f"chosen-grid-{kind}", f"chosen-strip-{kind}"} <= ids(scene.marks)
        assert group.sets["at"] == "30"


def test_stashes_can_be_stepped_through_and_time_too() -> None:
    figure = get("schedule")
    state, seen = {"schedule": "gpipe"}, []
    for _ in range(20):
        button = by_id(figure.scene(**state), "next-button")
        assert isinstance(button, Group)
        state |= button.sets
        seen.append(state["stash"])
    assert seen == [f"0.{microbatch}" for microbatch in range(20)]
    assert cast("Group", by_id(figure.scene(**state), "next-button")).knob == ""
    zoomed = figure.scene(zoom="4")
    assert cast("Group", by_id(zoomed, "earlier-button")).knob == ""
    assert cast("Group", by_id(zoomed, "later-button")).sets == {"at": "17"}


def test_a_click_on_a_row_chooses_its_rank() -> None:
    figure = get("schedule")
    for group in groups(figure.scene(), "rank"):
        scene = figure.scene(**group.sets)
        assert scene.status.startswith(f"Rank {group.value} of 8")
        assert next(g for g in groups(scene, "rank") if g.value == group.value).pressed


def test_what_cannot_be_is_said_in_a_sentence_or_put_right() -> None:
    figure = get("schedule")
    few = figure.scene(microbatches="8")
    assert "needs at least 2*pp = 16" in few.problem
    assert figure.scene(ranks="4", rank="7").resolved == {"rank": "3"}
    assert figure.scene(stash="1.19", schedule="1f1b").resolved == {"stash": ""}


def test_release_and_output_gradients_change_what_is_kept() -> None:
    figure = get("schedule")
    late = figure.scene(schedule="zb1p", rank="7")
    early = figure.scene(schedule="zb1p", rank="7", release="I")
    assert "at most 8 stashes" in late.status
    assert "at most 1 stash," in early.status
    with_gradients = figure.scene(schedule="zb1p", rank="7", pending="on")
    held = schedule.pending(schedule.order("zb1p", pp=8, microbatches=20)[7], 1)
    assert f"Up to {max(map(sum, held))} output gradients" in with_gradients.status


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("kind", grid.KINDS.values())
def test_light_and_dark_cells_are_told_apart_and_carry_their_numbers(kind: str, theme: int) -> None:
    light, dark = (PALETTE[role][theme] for role in (f"{kind} soft", kind))
    assert contrast(light, dark) >= 1.4
    assert contrast(light, PALETTE["text"][theme]) >= 4.5
    assert contrast(dark, PALETTE["ground"][theme]) >= 4.5


# --- the fold ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pp", [2, 4, 8, 16])
@pytest.mark.parametrize("ep", [1, 64])
def test_the_fold_loses_no_layer_and_no_parameter(pp: int, ep: int) -> None:
    plan = Plan(pp=pp, ep=ep)
    layers = [
        at
        for rank in plan.chunks_of_rank
        for chunk in rank
        for at in range(chunk.first, chunk.stop)
    ]
    assert sorted(layers) == list(range(61))
    totals = [sum(held.values()) for held in fold.rank_parameters(plan)]
    weights = [ledger.totals["weights"] for ledger in account(plan).ranks]
    assert [2 * total for total in totals] == weights
    if ep == 1:
        assert sum(totals) == 671_026_419_200
    scene = get("fold").scene(pp=str(pp), ep=str(ep))
    assert [row[3] for row in scene.table.rows] == [f"{total:,}" for total in totals]


def sizes(name: str) -> range:
    """Numbers of ranks over which this schedule can lay 61 layers; interleaved in four chunks."""
    most = {"interleaved": 15, "zbv": 31, "dualpipev": 31}.get(name, 63)
    return range(2, most + 1, 2 if name == "dualpipe" else 1)


@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_hosts_every_layer(name: str) -> None:
    for pp in sizes(name):
        plan = Plan(
            pp=pp,
            gpus=64 * pp,
            schedule=name,
            microbatches=2 * pp,
            virtual_stages=4 if name == "interleaved" else None,
        )
        hosted = [
            at
            for rank in plan.chunks_of_rank
            for chunk in rank
            for at in range(chunk.first, chunk.stop)
        ]
        assert sorted(hosted) == sorted([*range(61)] * plan.copies)


def test_both_ends_of_the_model_are_on_rank_0() -> None:
    scene = get("fold").scene(rank="0")
    row = [mark for mark in scene.marks if isinstance(mark, Rect) and mark.y == fold.SLOTS]
    assert len(row) == 63
    assert [at for at, slot in enumerate(row) if not slot.faint] == [0, 1, 2, 3, 60, 61, 62]
    assert "rank 0 with 4,422,131,200 parameters" in scene.status
    inside = get("fold").scene(rank="3")
    row = [mark for mark in inside.marks if isinstance(mark, Rect) and mark.y == fold.SLOTS]
    assert [at for at, slot in enumerate(row) if not slot.faint] == [*range(12, 16), *range(48, 52)]


def test_the_bars_of_the_fold_are_parameters() -> None:
    scene = get("fold").scene()
    ranks = fold.rank_parameters(Plan())
    most = max(sum(held.values()) for held in ranks)
    for at, held in enumerate(ranks):
        for name, amount in held.items():
            bar = _rect(by_id(scene, f"bar-{name}-{at}"))
            assert bar.height == pytest.approx(fold.BARS_HIGH * amount / most)


def test_too_many_ranks_for_the_model_are_refused_in_words() -> None:
    assert "only 63 slots" in get("fold").scene(pp="32").problem


# --- memory over the step ----------------------------------------------------------------------

PLANS = [
    *(
        Plan(schedule=name, microbatches=20, virtual_stages=2 if name == "interleaved" else None)
        for name in NAMES
    ),
    Plan(recompute="none", recipe="bf16"),
    Plan(recompute="full", microbatches=64),
    Plan(pp=16, ep=32, schedule="zbv", microbatches=40),
    Plan(pp=4, tp=2, cp=2, schedule="zb1p", microbatch_size=2),
    Plan(tp=8, recipe="all-fp8", schedule="interleaved", virtual_stages=3),
    Plan(pp=1, schedule="single"),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.schedule}-{plan.pp}")
def test_the_watermark_is_the_ledger_of_every_rank(plan: Plan) -> None:
    for rank in range(plan.pp):
        ledger = rank_ledger(plan, rank)
        _, counts, total = memory.course(plan, rank).watermark
        assert (total, counts) == (ledger.total, ledger.stashes)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rank", [0, 1, 7])
def test_the_drawn_stack_is_the_ledger(name: str, rank: int) -> None:
    scene = get("step-memory").scene(schedule=name, rank=str(rank))
    assert stack_problems(scene, memory.plan_of(name, "20", "dsv3", "dsv3-fp8"), rank) == []


def stack_problems(scene: Scene, plan: Plan, rank: int) -> list[str]:
    """What in the picture is not the ledger's."""
    ledger = rank_ledger(plan, rank)
    nominal = cast("Line", by_id(scene, "limit"))
    unit = (memory.BOTTOM - nominal.y1) / (80 * 2**30)
    wrong = [
        state
        for state in ("weights", "gradients", "optimizer")
        if abs(_rect(by_id(scene, f"band-{state}")).height - unit * ledger.totals[state]) > CLOSE
    ]
    mark = cast("Line", by_id(scene, "watermark"))
    if abs(memory.BOTTOM - mark.y1 - unit * ledger.total) > CLOSE:
        wrong.append("watermark")
    curves = [m for m in scene.marks if isinstance(m, Path) and m.role.startswith("activations")]
    if abs(min(y for curve in curves for _, y in curve.points) - mark.y1) > CLOSE:
        wrong.append("stashes")
    return wrong


def test_a_corrupted_stack_is_found() -> None:
    scene = get("step-memory").scene()
    band = _rect(by_id(scene, "band-weights"))
    bent = tuple(
        replace(band, height=band.height + 1) if mark is band else mark for mark in scene.marks
    )
    plan = memory.plan_of("dualpipev", "20", "dsv3", "dsv3-fp8")
    assert stack_problems(replace(scene, marks=bent), plan, 1) == ["weights"]


def test_the_default_step_is_the_plan_that_fits() -> None:
    scene = get("step-memory").scene()
    assert scene.table.rows[-1][2] == f"{account(Plan()).peak.total:,}"
    assert "61.74 GiB" in scene.status
    assert "18.26 GiB under 80 GiB" in scene.status


# --- idle time against memory ------------------------------------------------------------------


@pytest.mark.parametrize("microbatches", ["16", "20", "64"])
@pytest.mark.parametrize("recompute", ["none", "dsv3"])
def test_dots_are_bubble_and_activations(microbatches: str, recompute: str) -> None:
    scene = get("pareto").scene(microbatches=microbatches, recompute=recompute)
    places: dict[str, tuple[float, Number]] = {}
    for name in NAMES:
        plan = memory.plan_of(name, microbatches, recompute, "dsv3-fp8")
        run = grid.Run(name, 8, int(microbatches)).timeline
        held = max(ledger.totals["activations"] for ledger in account(plan).ranks)
        places[name] = (run.bubble / run.makespan, held)
        dot = _rect(by_id(scene, f"dot-{name}"))
        assert dot.x + dot.width / 2 == pytest.approx(pareto.across(places[name][0]))
        assert dot.y + dot.height / 2 == pytest.approx(pareto.up(held))
    for name, place in places.items():
        beaten = any(
            other != place and other[0] <= place[0] and other[1] <= place[1]
            for other in places.values()
        )
        assert _rect(by_id(scene, f"dot-{name}")).filled == (not beaten)


def test_a_schedule_that_cannot_run_is_named_with_the_reason() -> None:
    scene = get("pareto").scene(microbatches="8")
    assert "DualPipeV is missing: microbatches = 8 is too few" in scene.status
    assert "dot-dualpipev" not in ids(scene.marks)
