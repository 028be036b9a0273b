"""Orders against those of PyTorch's own pipeline schedules, action by action.

PyTorch builds its orders from stages that only say where they are, so no process group and no
model is needed. Runs where torch is installed (CI installs the CPU build); elsewhere the table in
goldens/schedules.json stands for it.
"""

import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from memmodel import schedule
from memmodel.schedule import Action, Step

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch warns about optional packages when it is imported
    schedules = pytest.importorskip(
        "torch.distributed.pipelining.schedules", reason="needs torch, as .ci/run installs it"
    )

Orders = tuple[tuple[Step, ...], ...]
KINDS = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W"}
CLASSES = {
    "interleaved": "ScheduleInterleaved1F1B",
    "zb1p": "ScheduleInterleavedZeroBubble",
    "zbv": "ScheduleZBVZeroBubble",
    "dualpipev": "ScheduleDualPipeV",
}


class Stage(SimpleNamespace):
    """A stage that knows its place and notes what it is asked to run."""

    def __init__(self, index: int, rank: int, pp: int, total: int) -> None:
        super().__init__(
            stage_index=index,
            group_rank=rank,
            group_size=pp,
            num_stages=total,
            is_first=index == 0,
            is_last=index == total - 1,
            has_backward=True,
            submod=None,
            log=[],
        )

    def forward_one_chunk(self, microbatch: int, *_: object, **__: object) -> None:
        self.log.append((Action("F", 0, microbatch),))

    def backward_one_chunk(self, microbatch: int, **_: object) -> None:
        self.log.append((Action("B", 0, microbatch),))

    def no_ops(self, _microbatch: int) -> list[object]:
        return []

    get_fwd_recv_ops = get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = no_ops

    def perform_reduce_grad(self, _scale: int) -> None:
        """Nothing to reduce here."""


def stepped(class_name: str, pp: int, microbatches: int) -> Orders:
    """What a one-stage schedule really runs.

    Not `_get_pipeline_order`: in PyTorch 2.13 that of Schedule1F1B is off by one on the last rank.
    """
    orders = []
    for rank in range(pp):
        stage = Stage(rank, rank, pp, pp)
        torch_schedule = getattr(schedules, class_name)(stage, microbatches)
        torch_schedule._initialize_stage = lambda *_, **__: None
        torch_schedule._step_microbatches()
        orders.append(tuple(stage.log))
    return tuple(orders)


def planned(name: str, pp: int, microbatches: int, virtual_stages: int) -> Orders:
    """What a schedule of several stages a rank has planned for every rank."""
    hosted = schedule.stages(name, pp=pp, virtual_stages=virtual_stages)
    total = sum(map(len, hosted))
    stages = [Stage(index, 0, pp, total) for index in hosted[0]]
    plan = getattr(schedules, CLASSES[name])(stages, microbatches, loss_fn=lambda *_: None)

    def translate(action: Any, rank: int) -> Iterator[Action]:
        if action.sub_actions:
            for part in action.sub_actions:
                yield from translate(part, rank)
        else:
            chunk = hosted[rank].index(action.stage_index)
            yield Action(KINDS[action.computation_type.name], chunk, action.microbatch_index)

    return tuple(
        tuple(tuple(translate(action, rank)) for action in plan.pipeline_order[rank] if action)
        for rank in range(pp)
    )


@pytest.mark.parametrize("pp", [2, 3, 4, 5, 8, 16])
def test_one_stage_schedules_run_as_pytorch_runs_them(pp: int) -> None:
    for microbatches in (pp, pp + 1, 2 * pp, 3 * pp - 1, 4 * pp):
        size = {"pp": pp, "microbatches": microbatches}
        assert schedule.order("gpipe", **size) == stepped("ScheduleGPipe", **size)
        assert schedule.order("1f1b", **size) == stepped("Schedule1F1B", **size)
    for microbatches in (1, pp - 1):  # PyTorch refuses fewer microbatches than ranks under 1F1B
        size = {"pp": pp, "microbatches": microbatches}
        assert schedule.order("gpipe", **size) == stepped("ScheduleGPipe", **size)


@pytest.mark.parametrize("pp", [2, 3, 4, 8])
@pytest.mark.parametrize("virtual_stages", [1, 2, 3, 4])
def test_interleaved_is_pytorchs(pp: int, virtual_stages: int) -> None:
    for microbatches in range(1, 4 * pp + 1):
        size: dict[str, Any] = {
            "pp": pp,
            "microbatches": microbatches,
            "virtual_stages": virtual_stages,
        }
        if microbatches % max(1, microbatches // pp):
            with pytest.raises(ValueError, match="multiple of the number of rounds"):
                planned("interleaved", **size)
            with pytest.raises(ValueError, match="rounds of equal size"):
                schedule.check("interleaved", **size)
        else:
            assert schedule.order("interleaved", **size) == planned("interleaved", **size)


@pytest.mark.parametrize("pp", [2, 3, 4, 8])
def test_zero_bubble_schedules_are_pytorchs(pp: int) -> None:
    for microbatches in range(1, 4 * pp + 1):
        size = {"pp": pp, "microbatches": microbatches}
        assert schedule.order("zbv", **size) == planned("zbv", **size, virtual_stages=2)
        if microbatches % max(1, microbatches // pp) == 0:  # needless for one stage, but its rule
            assert schedule.order("zb1p", **size) == planned("zb1p", **size, virtual_stages=1)


@pytest.mark.parametrize("pp", [2, 3, 4, 5, 8, 16])
def test_dualpipev_is_pytorchs(pp: int) -> None:
    for microbatches in (2 * pp, 2 * pp + 1, 2 * pp + 2, 3 * pp, 4 * pp + 1):
        size = {"pp": pp, "microbatches": microbatches}
        assert schedule.order("dualpipev", **size) == planned("dualpipev", **size, virtual_stages=2)
    with pytest.raises(ValueError, match="at least as many microbatches as stages"):
        planned("dualpipev", pp, 2 * pp - 1, 2)
