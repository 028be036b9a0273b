"""What a plan accepts, what it refuses and how it says so, and that nothing else ever comes out."""

from __future__ import annotations

import json
import re
import time
from dataclasses import FrozenInstanceError, fields, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import valid_plans

from memmodel.inputs import parse_json_object
from memmodel.ledger import account
from memmodel.plan import MOST, Plan, as_written, field_help

# The fields of a plan, which scripts rely on.
DEFAULTS = {
    "model": "deepseek-v3",
    "gpus": 2048,
    "tp": 1,
    "cp": 1,
    "pp": 8,
    "ep": 64,
    "etp": 1,
    "zero": 1,
    "schedule": "dualpipev",
    "virtual_stages": 2,
    "microbatches": 32,
    "seq_len": 4096,
    "microbatch_size": 1,
    "recipe": "dsv3-fp8",
    "formats": {},
    "recompute": "dsv3",
    "replay": [],
    "save": [],
    "optimizer": "bf16-moments",
    "dual_stash": False,
    "fp8_params": False,
    "device": "h100",
    "reserve_gib": 0,
}


def test_defaults_are_those_that_scripts_rely_on() -> None:
    assert Plan().resolved() == DEFAULTS
    assert Plan.from_dict({}) == Plan()
    assert [name for name, *_ in field_help()] == list(DEFAULTS)


def test_derived_defaults_follow_their_fields() -> None:
    # 2 for V schedules, else 1; 2*2*pp microbatches.
    assert Plan(pp=16).num_microbatches == 64
    stages = {"zbv": 2, "dualpipev": 2, "dualpipe": 1, "1f1b": 1, "interleaved": 1, "single": 1}
    for schedule, wanted in stages.items():
        assert Plan(schedule=schedule).num_virtual_stages == wanted
    assert Plan.from_dict({"virtual_stages": None, "microbatches": None}) == Plan()


def test_a_plan_is_frozen_and_checked_again_when_replaced() -> None:
    with pytest.raises(FrozenInstanceError):
        Plan().pp = 4  # type: ignore[misc]
    assert replace(Plan(), pp=16).mesh.dp == 128
    with pytest.raises(ValueError, match="gpus"):
        replace(Plan(), gpus=2049)
    assert hash(Plan()) == hash(Plan())


def test_containers_are_normalised() -> None:
    plan = Plan.from_dict({"formats": {"o_proj": "bf16", "attn": "e4m3"}, "replay": ["attn"]})
    assert plan.formats == (("attn", "e4m3"), ("o_proj", "bf16"))
    assert plan.replay == ("attn",)
    assert plan.resolved()["formats"] == {"attn": "e4m3", "o_proj": "bf16"}
    assert replace(plan, pp=16).formats == plan.formats


@settings(max_examples=150, deadline=None)
@given(values=valid_plans())
def test_valid_plans_are_accepted_and_survive_their_own_json(values: dict[str, Any]) -> None:
    plan = Plan(**values)
    again = Plan.from_dict(json.loads(json.dumps(plan.resolved())))
    assert again.resolved() == plan.resolved()
    assert again.chunks_of_rank == plan.chunks_of_rank


# --- refusals -------------------------------------------------------------------------------------

DEGREES = (
    "gpus",
    "tp",
    "cp",
    "pp",
    "ep",
    "etp",
    "seq_len",
    "microbatch_size",
    "microbatches",
    "virtual_stages",
)
NO_WHOLE_NUMBER: list[Any] = [
    0,
    -1,
    -(10**40),
    10**30,
    1.0,
    8.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    True,
    False,
    "8",
    "",
    [8],
    {"a": 8},
    (8,),
]


@pytest.mark.parametrize("name", DEGREES)
@pytest.mark.parametrize("value", NO_WHOLE_NUMBER, ids=repr)
def test_no_whole_number_is_refused_with_name_value_and_range(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{name} = ") as caught:
        Plan.from_dict({name: value})
    assert f"{name} = {value!r}" in str(caught.value)
    assert "a whole number from 1 to" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"zero": 4}, "zero = 4, but a whole number from 0 to 3 is needed"),
        ({"zero": -1}, "zero = -1, but a whole number from 0 to 3 is needed"),
        ({"zero": True}, "zero = True"),
        ({"gpu": 8}, "no field 'gpu' in a plan, known are model, gpus, tp"),
        ({"": 8}, "no field ''"),
        ({"layers": 61}, "no field 'layers'"),
        ({"pp": None}, "pp = null, but a value is needed"),
        ({"formats": None}, "formats = null"),
        ({"replay": None}, "replay = null"),
        ({"model": None}, "model = null"),
        ({"model": 3}, "model = 3, but a name is needed"),
        ({"model": "gpt-5"}, "model 'gpt-5': neither a config.json nor one of deepseek-v3"),
        ({"schedule": "2f2b"}, "'2f2b'"),
        ({"schedule": ["1f1b"]}, "schedule = ['1f1b'], but a name is needed"),
        ({"recipe": "fp4"}, "recipe 'fp4': known are bf16, dsv3-fp8, all-fp8, nv-mxfp8"),
        ({"recipe": {}}, "recipe = {}, but a name is needed"),
        ({"recompute": "some"}, "recompute 'some': known are none, dsv3, selective"),
        ({"optimizer": "sgd"}, "optimizer 'sgd': known are bf16-moments, mixed"),
        ({"device": "h101"}, "device 'h101': known are h100"),
        ({"device": 100}, "device = 100, but a name is needed"),
        ({"formats": "bf16"}, "formats = 'bf16', but an object of site: format is needed"),
        ({"formats": []}, "formats = [], but an object"),
        ({"formats": [["o_proj", "bf16"]]}, "formats = [['o_proj', 'bf16']], but an object"),
        ({"formats": {"o_proj": 16}}, "formats = {'o_proj': 16}, but an object"),
        ({"formats": {"o_proj": "fp8"}}, "formats: o_proj = 'fp8', known are fp32"),
        ({"formats": {"mlp": "bf16"}}, "formats: no site 'mlp', known are qkv_down"),
        ({"formats": {"attn": "e5m6"}}, "only o_proj may be stored as e5m6"),
        ({"replay": "norm1"}, "replay = 'norm1', but a list of op names is needed"),
        ({"replay": {"norm1": True}}, "replay = {'norm1': True}, but a list"),
        ({"save": [1]}, "save = [1], but a list of op names is needed"),
        ({"replay": ["norm3"]}, "replay: no op 'norm3' to mark"),
        ({"save": ["x2"]}, "save: no op 'x2' to mark"),
        ({"replay": ["attn"], "save": ["attn"]}, "attn is in both replay and save"),
        ({"dual_stash": 1}, "dual_stash = 1, but true or false is needed"),
        ({"dual_stash": "true"}, "dual_stash = 'true', but true or false"),
        ({"fp8_params": None}, "fp8_params = null"),
        ({"reserve_gib": -1}, "reserve_gib = -1, but a number from 0"),
        ({"reserve_gib": -0.5}, "reserve_gib = -0.5"),
        ({"reserve_gib": float("nan")}, "reserve_gib = nan"),
        ({"reserve_gib": float("inf")}, "reserve_gib = inf"),
        ({"reserve_gib": 10**400}, "reserve_gib = 1000000"),
        ({"reserve_gib": "2"}, "reserve_gib = '2'"),
        ({"reserve_gib": True}, "reserve_gib = True"),
        ({"gpus": 2047}, "tp*cp*pp = 1*1*8 must divide gpus"),
        ({"ep": 3}, "ep = 3 must divide the number of routed experts"),
        ({"microbatches": 15}, "microbatches = 15 is too few: dualpipev"),
        ({"schedule": "dualpipe", "microbatches": 15}, "microbatches = 15 is too few: dualpipe"),
        ({"schedule": "dualpipe", "microbatches": 17}, "microbatches = 17 is odd"),
        ({"schedule": "interleaved", "microbatches": 17, "virtual_stages": 2}, "microbatches = 17"),
        ({"schedule": "1f1b", "virtual_stages": 2}, "virtual_stages = 2"),
        ({"virtual_stages": 3}, "virtual_stages = 3"),
        ({"pp": 32}, "the schedule cuts the model into 64 chunks"),
        ({"microbatches": 10**9}, "at most 1048576 are put in order"),
    ],
    ids=str,
)
def test_a_refusal_names_field_value_and_what_is_valid(
    values: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)) as caught:
        Plan.from_dict(values)
    assert "\n" not in str(caught.value)


def test_an_op_of_the_moe_block_alone_may_be_marked() -> None:
    # The dense blocks have no such op, and keep their marks.
    assert Plan(replay=("dispatch",)).marks["moe"] == Plan().marks["moe"] | {"dispatch"}
    assert Plan(replay=("dispatch",)).marks["dense"] == Plan().marks["dense"]


def test_any_number_of_microbatches_runs_where_no_minimum_is_stated() -> None:
    # dualpipev and dualpipe need 2*PP, interleaved rounds of equal size.
    for schedule in ("single", "gpipe", "1f1b", "zb1p", "zbv"):
        for microbatches in (1, 3, 1000):
            assert account(Plan(schedule=schedule, microbatches=microbatches)).peak.total > 0
    assert Plan(schedule="single", pp=1, gpus=64, microbatches=10**9).num_microbatches == 10**9


def test_a_reserve_is_the_decimal_that_was_written() -> None:
    assert as_written(0.1) == Fraction(1, 10)
    assert as_written(3) == as_written(3.0) == 3
    assert as_written(1e-7) == Fraction(1, 10**7)
    # In JSON a whole value is an integer, however it was written.
    for whole in (3, 3.0):
        resolved = Plan(reserve_gib=whole).resolved()["reserve_gib"]
        assert (resolved, type(resolved)) == (3, int)
    assert Plan(reserve_gib=2.5).resolved()["reserve_gib"] == 2.5


# --- fuzz: whatever comes in, a plan or one line of ValueError comes out, and soon ---------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([0, 1, 2, 3, 8, 64, 10**6, 10**9, 2**31, 2**63, 10**30, -1, MOST])
)
NAMES = st.sampled_from(
    [
        "1f1b",
        "dualpipe",
        "dualpipev",
        "zbv",
        "interleaved",
        "single",
        "bf16",
        "all-fp8",
        "full",
        "none",
        "e4m3",
        "e5m6",
        "o_proj",
        "attn",
        "norm1",
        "x0",
        "fp32",
        "h200",
        "deepseek-v3",
    ]
)
JSON = st.recursive(
    SCALARS | NAMES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from([item.name for item in fields(Plan)])


def check_answer(values: dict[str, Any]) -> None:
    start = time.process_time()
    try:
        account(Plan.from_dict(values))
    except ValueError as error:
        # Not one of its subclasses, which Python raises where nobody had thought of something.
        if type(error) is not ValueError or not str(error):
            raise
    # The bound on a schedule's events allows seconds; a blow-up would take for ever.
    assert time.process_time() - start < 30, values


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(values=st.dictionaries(FIELDS, JSON, max_size=4))
def test_any_json_for_any_fields(values: dict[str, Any]) -> None:
    check_answer(values)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(values=valid_plans(), changes=st.dictionaries(FIELDS, JSON, min_size=1, max_size=2))
def test_any_json_in_one_field_of_a_valid_plan(
    values: dict[str, Any], changes: dict[str, Any]
) -> None:
    check_answer(values | changes)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(
    text=st.text(max_size=60)
    | st.text(alphabet='{}[]":,\\u0123eE+-. ptruefalsn', max_size=60)
    | JSON.map(lambda value: json.dumps(value)[:50])
)
def test_any_text_as_a_plan(text: str) -> None:
    try:
        values = parse_json_object(text, "p")
    except ValueError as error:
        if type(error) is not ValueError or not str(error).startswith("p: "):
            raise
    else:
        check_answer(values)


@pytest.mark.parametrize(
    "values",
    [
        {"pp": 10**9, "gpus": 64 * 10**9},
        {"pp": 10**9, "gpus": 64 * 10**9, "schedule": "1f1b"},
        {"schedule": "interleaved", "virtual_stages": 10**9},
        {"microbatches": 2**13},
        {"microbatches": 2**16 + 1},  # one too many
        {"seq_len": 10**30},
        {"seq_len": 10**12, "microbatch_size": 10**12},
        {"gpus": 2**39},
        {"model": "x" * 10**6},
        {"replay": ["norm1"] * 10**5},
        {"replay": ["x"] * 10**6},
        {"formats": {f"site{i}": "bf16" for i in range(10**5)}},
        {f"field{i}": 1 for i in range(10**5)},
    ],
    ids=lambda values: str(values)[:40],
)
def test_big_input_is_answered_soon(values: dict[str, Any]) -> None:
    start = time.process_time()
    check_answer(values)
    assert time.process_time() - start < 10
