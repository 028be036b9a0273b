"""The command line against its contract: documents, tables and help of every command."""

from __future__ import annotations

import json
from fractions import Fraction
from math import isclose, prod
from pathlib import Path
from typing import Any

import pytest
from cli import ROOT, Output, answer

from memmodel.__main__ import main
from memmodel.plan import Plan, field_help

PLAN_FIELDS = [name for name, *_ in field_help()]


# --- account: the document ------------------------------------------------------------------------


def test_account_has_every_key_of_the_contract(capsys: Output) -> None:
    found = answer(capsys, "account")
    assert set(found) >= {
        "plan",
        "mesh",
        "ranks",
        "peak_rank",
        "fits",
        "nominal_bytes",
        "usable_bytes",
        "slack_bytes",
    }
    assert found["plan"] == Plan().resolved()
    assert (found["mesh"]["dp"], found["mesh"]["edp"]) == (256, 4)
    assert found["peak_rank"] == 1
    assert found["fits"] is True
    assert found["nominal_bytes"] == 80 * 2**30
    assert found["usable_bytes"] == 84_932_978_278
    assert found["slack_bytes"] == 80 * 2**30 - 66_296_545_344
    (rank,) = found["ranks"]
    assert {name: rank[name] for name in rank if name != "lines"} == {
        "rank": 1,
        "layers": [[3, 7], [55, 59]],
        "embedding": False,
        "head": False,
        "stashes": [15, 2],
        "weights": 6_546_526_208,
        "gradients": 13_093_052_416,
        "optimizer": 2_876_821_568,
        "activations": 43_780_145_152,
        "reserve": 0,
        "total": 66_296_545_344,
    }
    (experts,) = [
        line
        for line in rank["lines"]
        if line["category"] == "optimizer" and line["part"] == "routed experts"
    ]
    assert experts["bytes"] == 2_818_572_288
    assert experts["factors"][:2] == [["MoE layers", 8], ["experts on this rank", 4]]
    assert experts["divisors"] == [["EDP", 4]]


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--tp", "8", "--cp", "2", "--etp", "2", "--zero", "3", "--reserve-gib", "0.1"],
        ["--schedule", "dualpipe", "--fp8-params", "--dual-stash", "--zero", "2"],
        ["--schedule", "interleaved", "--virtual-stages", "3", "--recompute", "none"],
        ["--pp", "1", "--gpus", "192", "--seq-len", "4097", "--optimizer", "mixed"],
    ],
    ids=" ".join,
)
def test_lines_are_products_and_sum_up(capsys: Output, flags: list[str]) -> None:
    found = answer(capsys, "account", "--rank", "all", *flags)
    assert [rank["rank"] for rank in found["ranks"]] == list(range(found["plan"]["pp"]))
    for rank in found["ranks"]:
        sums: dict[str, Fraction] = {}
        for line in rank["lines"]:
            above = prod((Fraction(value) for _, value in line["factors"]), start=Fraction(1))
            below = prod((Fraction(value) for _, value in line["divisors"]), start=Fraction(1))
            exact = above / below
            if isinstance(line["bytes"], int):
                assert line["bytes"] == exact
            else:  # a fraction of a byte is printed as a float, and a whole value never is
                assert isclose(line["bytes"], exact, rel_tol=1e-15)
                assert not line["bytes"].is_integer()
            sums[line["category"]] = sums.get(line["category"], Fraction(0)) + exact
        for category in ("weights", "gradients", "optimizer", "activations", "reserve"):
            assert isclose(rank[category], sums.get(category, 0), rel_tol=1e-15)
        assert isclose(rank["total"], sum(sums.values()), rel_tol=1e-15)
        assert len(rank["layers"]) == len(rank["stashes"])
    heaviest = max(rank["total"] for rank in found["ranks"])
    assert found["ranks"][found["peak_rank"]]["total"] == heaviest
    assert isclose(found["slack_bytes"], found["nominal_bytes"] - heaviest, rel_tol=1e-12)
    assert found["fits"] == (heaviest <= found["usable_bytes"])


def test_ranks_one_by_one_are_those_of_all(capsys: Output) -> None:
    ranks = answer(capsys, "account", "--rank", "all")["ranks"]
    for number in range(8):
        found = answer(capsys, "account", "--rank", str(number))
        assert found["ranks"] == [ranks[number]]
        assert found["peak_rank"] == 1  # of all, whichever is shown
    assert answer(capsys, "account", "--rank", "peak")["ranks"] == [ranks[1]]
    assert answer(capsys, "account")["ranks"] == [ranks[1]]


def test_whole_values_are_integers_everywhere(capsys: Output) -> None:
    def walk(value: object) -> None:
        if isinstance(value, float):
            assert not value.is_integer()
        for inner in (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        ):
            walk(inner)

    walk(answer(capsys, "account", "--rank", "all"))
    for recompute in ("none", "dsv3", "full"):
        walk(answer(capsys, "block", "--recompute", recompute))
    walk(answer(capsys, "frontier", "--replay-communication"))
    walk(answer(capsys, "params"))
    walk(answer(capsys, "schedule", "zbv", "--pp", "4", "--microbatches", "8"))


def test_a_plan_file_and_flags_that_override_it(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"pp": 16, "recipe": "bf16", "replay": ["attn"], "dual_stash": true}')
    plan = answer(capsys, "account", str(path))["plan"]
    assert (plan["pp"], plan["microbatches"], plan["recipe"]) == (16, 64, "bf16")
    assert (plan["replay"], plan["dual_stash"]) == (["attn"], True)
    plan = answer(
        capsys, "account", str(path), "--recipe", "all-fp8", "--replay", "--no-dual-stash"
    )["plan"]
    assert (plan["pp"], plan["recipe"], plan["replay"]) == (16, "all-fp8", [])
    assert plan["dual_stash"] is False


@pytest.mark.parametrize(
    "flags",
    [
        ["--replay", "router", "attn"],
        ["--replay", "router,attn"],
        ["--replay", "router, attn"],
        ["--replay", "router attn"],
        ["--replay=router,attn"],
        ["--replay", "router,", "attn"],
        ["--replay", "router", "--replay", "attn"],
    ],
    ids=" ".join,
)
def test_lists_are_separated_by_spaces_or_commas(capsys: Output, flags: list[str]) -> None:
    assert answer(capsys, "account", *flags)["plan"]["replay"] == ["router", "attn"]


def test_tables_are_json_and_switches_stand_alone(capsys: Output) -> None:
    flags = ["--formats", '{"o_proj": "bf16"}', "--dual-stash", "--fp8-params"]
    plan = answer(capsys, "account", *flags)["plan"]
    assert plan["formats"] == {"o_proj": "bf16"}
    assert (plan["dual_stash"], plan["fp8_params"]) == (True, True)


@pytest.mark.parametrize("name", PLAN_FIELDS)
def test_every_field_has_a_flag_that_says_the_same_as_a_file(
    capsys: Output, tmp_path: Path, name: str
) -> None:
    values: dict[str, Any] = {
        "model": "deepseek-v3",
        "gpus": 4096,
        "tp": 2,
        "cp": 2,
        "pp": 4,
        "ep": 8,
        "etp": 2,
        "zero": 3,
        "schedule": "1f1b",
        "virtual_stages": 2,
        "microbatches": 40,
        "seq_len": 8192,
        "microbatch_size": 3,
        "recipe": "nv-mxfp8",
        "formats": {"attn": "e4m3"},
        "recompute": "full",
        "replay": ["attn"],
        "save": ["norm1", "q_up"],
        "optimizer": "fp32",
        "dual_stash": True,
        "fp8_params": True,
        "device": "b200",
        "reserve_gib": 2.5,
    }
    value = values[name]
    text = {dict: [json.dumps(value)], bool: [], list: value}.get(type(value), [str(value)])
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({name: value}))
    by_flag = answer(capsys, "account", f"--{name.replace('_', '-')}", *text)
    assert by_flag == answer(capsys, "account", str(path))
    assert by_flag["plan"][name] == value


def test_a_model_by_path(capsys: Output, tmp_path: Path) -> None:
    reference = json.loads((ROOT / "tests" / "goldens" / "reference.json").read_text())
    path = tmp_path / "kimi.json"
    path.write_text(json.dumps(reference["parameters_of_models"]["kimi-k2"]["config"]))
    found = answer(capsys, "params", str(path))
    assert found["total"] == 1_026_408_232_448
    plan = answer(capsys, "account", "--model", str(path), "--pp", "1", "--zero", "0", "--ep", "1")
    assert plan["ranks"][0]["weights"] == 2 * found["total"]


def test_one_layer_and_one_microbatch_are_said_as_one(capsys: Output, tmp_path: Path) -> None:
    config = json.loads((ROOT / "memmodel" / "zoo" / "deepseek-v3.json").read_text())
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | {"num_hidden_layers": 1, "first_k_dense_replace": 0}))
    assert main(["account", "--model", str(path), "--pp", "1"]) == 0
    assert "embedding, layer 0, head; 1 microbatch alive\n" in capsys.readouterr().out
    assert main(["params", str(path)]) == 0
    assert ": 1 moe layer of 11,507,286,272\n" in capsys.readouterr().out


# --- block, params, schedule: their documents -----------------------------------------------------


def test_block_has_every_key_of_the_contract(capsys: Output) -> None:
    found = answer(capsys, "block", "--kind", "moe")
    assert set(found) >= {
        "kind",
        "stash_bytes_per_token",
        "tensors",
        "replayed",
        "forward_flops_per_token",
        "replay_flops_per_token",
        "replay_fraction",
        "replayed_communication",
        "pointless",
        "neutral",
        "dual",
        "forward_cost_per_token",
        "replay_cost_per_token",
    }
    assert found["kind"] == "moe"
    assert found["stash_bytes_per_token"] == 157_184 == sum(found["tensors"].values())
    assert found["tensors"]["x0"] == 14_336
    assert found["tensors"]["lse"] == 512
    assert all(size > 0 for size in found["tensors"].values())
    assert found["forward_flops_per_token"] == 1_338_667_392
    fraction = found["replay_flops_per_token"] / found["forward_flops_per_token"]
    assert found["replay_fraction"] == fraction == pytest.approx(0.0817, abs=5e-5)
    assert found["replayed"] == [
        "norm1",
        "q_norm",
        "kv_norm",
        "q_up",
        "kv_up",
        "rope_q",
        "rope_kv",
        "norm2",
        "swiglu",
    ]
    assert found["forward_cost_per_token"] < found["forward_flops_per_token"]
    assert (found["replayed_communication"], found["pointless"], found["dual"]) == ([], [], [])
    assert "o_proj" in found["neutral"]


def test_block_takes_every_flag_of_the_contract(capsys: Output) -> None:
    found = answer(
        capsys,
        "block",
        "--model",
        "deepseek-v3",
        "--kind",
        "dense",
        "--recipe",
        "all-fp8",
        "--formats",
        '{"ffn_down": "bf16"}',
        "--recompute",
        "none",
        "--replay",
        "attn",
        "--save",
        "norm1",
        "--dual-stash",
        "--seq-len",
        "8192",
    )
    assert found["kind"] == "dense"
    assert found["replayed"] == ["attn"]
    assert found["tensors"]["rstd norm1"] == 4
    assert found["tensors"]["norm1"] == 2 * 7392
    assert found["tensors"]["swiglu"] == 2 * 18432
    assert "lse" not in found["tensors"]
    attention = 128 * 320 * 8192
    assert found["replay_flops_per_token"] == attention
    assert answer(capsys, "block", "--recompute", "full")["replayed_communication"] == [
        "dispatch",
        "combine",
    ]


def test_params_has_every_key_of_the_contract(capsys: Output) -> None:
    found = answer(capsys, "params")
    assert found == answer(capsys, "params", "deepseek-v3")
    assert found["model"] == "deepseek-v3"
    assert found["total"] == 671_026_419_200 == sum(found["by_class"].values())
    assert found["buffers"] == 58 * 256
    assert found["trainable"] == found["total"] - found["buffers"]
    assert found["active"] == 36_625_618_432
    assert found["mtp"] == 11_610_068_224
    assert set(found["by_class"]) == {
        "embedding",
        "attention",
        "dense_ffn",
        "router",
        "routed_experts",
        "shared_experts",
        "norms",
        "lm_head",
    }
    assert [(layer["kind"], layer["count"]) for layer in found["layers"]] == [
        ("dense", 3),
        ("moe", 58),
    ]
    layers = sum(layer["count"] * layer["parameters"] for layer in found["layers"])
    assert layers == found["total"] - 2 * 926_679_040 - 7168
    assert found["notes"] == []


def test_schedule_has_every_key_of_the_contract(capsys: Output) -> None:
    found = answer(capsys, "schedule", "dualpipev", "--pp", "8", "--microbatches", "20")
    assert found["peak_stashes"] == 8 * [17]
    assert [sum(chunks) for chunks in found["peak_by_chunk"]] == found["peak_stashes"]
    assert (found["makespan"], found["bubble"]) == (134, 14)
    assert found["bubble_fraction"] == pytest.approx(14 / 134)
    assert len(found["order"]) == 8
    actions = [action for step in found["order"][0] for action in step.split("+")]
    assert actions[0] == "F0.0"
    assert {action[0] for action in actions} == {"F", "B", "I", "W"}
    assert any("+" in step for step in found["order"][0])
    found = answer(
        capsys,
        "schedule",
        "interleaved",
        "--pp",
        "2",
        "--microbatches",
        "4",
        "--virtual-stages",
        "3",
    )
    assert len(found["peak_by_chunk"][0]) == 3


# --- tables for people ----------------------------------------------------------------------------


def text_of(capsys: Output, *arguments: str) -> str:
    assert main(list(arguments)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert not any(line != line.rstrip() for line in out.splitlines())
    return str(out)


def test_the_verdict_comes_first(capsys: Output) -> None:
    lines = text_of(capsys, "account").splitlines()
    assert lines[0] == "deepseek-v3 on 2,048 x H100 SXM: fits"
    assert "peak rank 1 of 8 holds 61.7 GiB: 18.3 GiB of slack to 80.0 GiB" in lines[1]
    assert lines[-1].split()[:3] == ["total", "61.7", "GiB"]
    too_much = text_of(capsys, "account", "--recompute", "none", "--recipe", "bf16")
    assert "does not fit, 60.5 GiB too much" in too_much
    assert "139.6 GiB: 59.6 GiB over 80.0 GiB" in too_much
    assert "8.65 TiB" in text_of(
        capsys,
        "account",
        "--pp",
        "1",
        "--ep",
        "1",
        "--zero",
        "0",
        "--recompute",
        "none",
        "--recipe",
        "bf16",
    )


def test_all_ranks_have_a_row_each_and_a_reserve_its_column(capsys: Output) -> None:
    rows = text_of(capsys, "account", "--rank", "all").splitlines()[3:]
    assert len(rows) == 1 + 8
    assert "reserve" not in rows[0]
    assert "47.3 GiB  16 + 1  embedding, layers 0-2; layers 59-60, head" in rows[1]
    rows = text_of(capsys, "account", "--rank", "all", "--reserve-gib", "4").splitlines()[3:]
    assert "reserve" in rows[0]
    assert "4.0 GiB" in rows[1]


def test_block_params_and_schedule_have_tables(capsys: Output) -> None:
    block = text_of(capsys, "block")
    assert "157,184 B per token" in block
    assert "8.17 % of its forward FLOPs" in block
    full = text_of(capsys, "block", "--recompute", "full")
    assert "the communication of dispatch and combine" in full
    assert "671,026,419,200" in text_of(capsys, "params")
    schedule = text_of(capsys, "schedule", "dualpipev", "--pp", "8", "--microbatches", "20")
    assert "bubble 14 of 134" in schedule


# --- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", "account", "block", "frontier", "params", "schedule"])
def test_help_exits_with_0(capsys: Output, command: str) -> None:
    assert main([*command.split(), "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: memmodel")
    assert err == ""


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("account", PLAN_FIELDS),
        (
            "block",
            ["model", "recipe", "formats", "recompute", "replay", "save", "dual_stash", "seq_len"],
        ),
        ("frontier", ["model", "recipe", "formats", "dual_stash", "seq_len"]),
    ],
)
def test_help_names_every_field_with_unit_and_default(
    capsys: Output, command: str, names: list[str]
) -> None:
    main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    shown = {
        "virtual_stages": "2 for V schedules, else 1",
        "microbatches": "4 * pp",
        "formats": "none",
        "replay": "none",
        "save": "none",
        "dual_stash": "off",
        "fp8_params": "off",
    }
    for name, default, unit, meaning, _ in field_help():
        if name in names:
            help_of_field = text.split(f"--{name.replace('_', '-')} ")[-1]
            wanted = f"{meaning} [{unit}; default {shown.get(name, default)}]"
            assert wanted in help_of_field, name
    for choice in (
        "dualpipev",
        "bf16-moments 2+4+8 = 14",
        "mixed-both-grads 2+6+12 = 20",
        "h100 80.0 GiB 79.10 GiB usable",
    ):
        assert (choice in text) == (command == "account")


def test_help_of_params_and_schedule_names_their_arguments(capsys: Output) -> None:
    main(["params", "--help"])
    assert "[default deepseek-v3]" in capsys.readouterr().out
    main(["schedule", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "--pp P pipeline parallelism [degree; no default]",
        "no default]",
        "[chunks; default 2 for V schedules, else 1]",
        "zb1p",
    ):
        assert words in text
