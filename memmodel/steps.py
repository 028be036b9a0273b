"""The story of the book as plans: six steps from everything on every GPU to a run that fits.

Each step is one change to the plan before it, so what a step wins is owed to that change alone.
The last plan is the default plan: DeepSeek-V3 on 2048 H100s as its report describes the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from memmodel.formats import Number
from memmodel.ledger import STATES, Account, account
from memmodel.plan import Plan

COUNTED = (*STATES, "activations")


@dataclass(frozen=True)
class Step:
    """One plan of the story, and the change that led to it."""

    number: int
    name: str
    change: str  # the lever, as it is pulled on the command line
    plan: Plan

    @cached_property
    def account(self) -> Account:
        """The ledgers of all ranks under this plan."""
        return account(self.plan)

    @property
    def bytes(self) -> dict[str, Number]:
        """Bytes of each category on the peak rank."""
        totals = self.account.peak.totals
        return {category: totals[category] for category in COUNTED}

    @property
    def total(self) -> Number:
        """Bytes of the peak rank."""
        return self.account.peak.total


def _story() -> Iterator[Step]:
    # One chunk and one microbatch at a time; no sharding, no recompute, two bytes an element.
    plan = Plan(gpus=2048, pp=1, ep=1, zero=0, schedule="single", recompute="none", recipe="bf16")
    yield Step(1, "everything on every GPU", "the whole model, in bf16", plan)
    plan = replace(plan, zero=1)
    yield Step(2, "shard the optimizer", "zero 1", plan)
    plan = replace(plan, ep=64)
    yield Step(3, "deal out the experts", "ep 64", plan)
    plan = replace(plan, pp=8, schedule="dualpipev")
    yield Step(4, "cut the model into a pipeline", "pp 8, schedule dualpipev", plan)
    plan = replace(plan, recompute="dsv3")
    yield Step(5, "recompute what is cheap", "recompute dsv3", plan)
    plan = replace(plan, recipe="dsv3-fp8")
    yield Step(6, "store it in fewer bits", "recipe dsv3-fp8", plan)


STEPS = tuple(_story())


def step(number: int) -> Step:
    """The step of this number, 1 to 6.

    >>> step(6).total, step(6).plan == Plan()
    (66296545344, True)
    """
    if not 1 <= number <= len(STEPS):
        raise ValueError(f"step {number}: there are steps 1 to {len(STEPS)}")
    return STEPS[number - 1]
