"""Valid plans for hypothesis: every degree, every schedule, DeepSeek-V3's real dimensions."""

from __future__ import annotations

from math import lcm
from typing import Any

from hypothesis import strategies as st

from memmodel.formats import OPTIMIZERS, RECIPES
from memmodel.recompute import POLICIES
from memmodel.schedule import SCHEDULES

SLOTS = 61 + 2
SEQ_LEN = 4096 * 15  # so that cp = 3 and 5 divide it too


@st.composite
def valid_plans(draw: st.DrawFn, /, **fixed: Any) -> dict[str, Any]:
    """The fields of a plan that must be accepted; `fixed` ones are not drawn."""
    schedule = draw(st.sampled_from(sorted(SCHEDULES)))
    virtual_stages = draw(st.integers(1, 4)) if schedule == "interleaved" else None
    most = SLOTS // (2 if schedule in ("zbv", "dualpipev") else virtual_stages or 1)
    pp = draw(st.integers(1, most))
    if schedule == "dualpipe" and pp > 1:
        pp -= pp % 2
    microbatches = 2 * pp * draw(st.integers(1, 3))
    tp = 2 ** draw(st.integers(0, 7))
    cp = draw(st.sampled_from([1, 2, 3, 5, 8]))
    ep = 2 ** draw(st.integers(0, 8))
    etp = 2 ** draw(st.integers(0, 3))
    gpus = pp * lcm(tp * cp, ep * etp) * draw(st.integers(1, 3))
    return {
        "gpus": gpus,
        "tp": tp,
        "cp": cp,
        "pp": pp,
        "ep": ep,
        "etp": etp,
        "zero": draw(st.integers(0, 3)),
        "schedule": schedule,
        "virtual_stages": virtual_stages,
        "microbatches": microbatches,
        "seq_len": SEQ_LEN,
        "microbatch_size": draw(st.integers(1, 3)),
        "recipe": draw(st.sampled_from(sorted(RECIPES))),
        "recompute": draw(st.sampled_from(sorted(POLICIES))),
        "optimizer": draw(st.sampled_from(sorted(OPTIMIZERS))),
        "dual_stash": draw(st.booleans()),
        "fp8_params": draw(st.booleans()),
        "reserve_gib": draw(st.sampled_from([0, 3, 0.1])),
    } | fixed
