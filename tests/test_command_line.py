"""The command line against its contract: documents, tables, help, one line for every mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from math import isclose, prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memmodel.__main__ import main
from memmodel.plan import Plan, field_help

ROOT = Path(__file__).resolve().parent.parent
Output = pytest.CaptureFixture[str]
PLAN_FIELDS = [name for name, *_ in field_help()]


def answer(capsys: Output, *arguments: str) -> Any:
    """The one JSON document of a command that must succeed."""
    status = main([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    assert out.endswith("}\n")
    assert out.count("\n") == 1
    return json.loads(out)


def mistake(capsys: Output, *arguments: str) -> str:
    """The one line of a command that must fail."""
    status = main(list(arguments))
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    return check_line(err)


def check_line(err: str) -> str:
    assert err.startswith("memmodel: error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert len(err) < 700
    return err.removeprefix("memmodel: error: ").strip()


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "memmodel", *arguments],
        cwd=ROOT, capture_output=True, check=False, timeout=60, **options,
    )  # fmt: skip


# --- account: the document ------------------------------------------------------------------------


def test_account_has_every_key_of_the_contract(capsys: Output) -> None:
    found = answer(capsys, "account")
    assert set(found) >= {"plan", "mesh", "ranks", "peak_rank", "fits", "nominal_bytes",
                          "usable_bytes", "slack_bytes"}  # fmt: skip
    assert found["plan"] == Plan().resolved()
    assert (found["mesh"]["dp"], found["mesh"]["edp"]) == (256, 4)
    assert found["peak_rank"] == 1
    assert found["fits"] is True
    assert found["nominal_bytes"] == 80 * 2**30
    assert found["usable_bytes"] == 84_932_978_278
    assert found["slack_bytes"] == 80 * 2**30 - 66_296_545_344
    (rank,) = found["ranks"]
    assert {name: rank[name] for name in rank if name != "lines"} == {
        "rank": 1, "layers": [[3, 7], [55, 59]], "embedding": False, "head": False,
        "stashes": [15, 2], "weights": 6_546_526_208, "gradients": 13_093_052_416,
        "optimizer": 2_876_821_568, "activations": 43_780_145_152, "reserve": 0,
        "total": 66_296_545_344,
    }  # fmt: skip
    (experts,) = [line for line in rank["lines"] if line["category"] == "optimizer"
                  and line["part"] == "routed experts"]  # fmt: skip
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
        for inner in value.values() if isinstance(value, dict) else value if isinstance(
            value, list) else ():  # fmt: skip
            walk(inner)

    walk(answer(capsys, "account", "--rank", "all"))
    walk(answer(capsys, "block"))
    walk(answer(capsys, "params"))


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
        ["--replay", "router", "attn"], ["--replay", "router,attn"], ["--replay", "router, attn"],
        ["--replay", "router attn"], ["--replay=router,attn"], ["--replay", "router,", "attn"],
        ["--replay", "router", "--replay", "attn"],
    ],
    ids=" ".join,
)  # fmt: skip
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
        "model": "deepseek-v3", "gpus": 4096, "tp": 2, "cp": 2, "pp": 4, "ep": 8, "etp": 2,
        "zero": 3, "schedule": "1f1b", "virtual_stages": 2, "microbatches": 40, "seq_len": 8192,
        "microbatch_size": 3, "recipe": "nv-mxfp8", "formats": {"attn": "e4m3"},
        "recompute": "full", "replay": ["attn"], "save": ["norm1", "q_up"], "optimizer": "fp32",
        "dual_stash": True, "fp8_params": True, "device": "b200", "reserve_gib": 2.5,
    }  # fmt: skip
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


# --- block, params, schedule: their documents -----------------------------------------------------


def test_block_has_every_key_of_the_contract(capsys: Output) -> None:
    found = answer(capsys, "block", "--kind", "moe")
    assert set(found) >= {
        "kind", "stash_bytes_per_token", "tensors", "replayed", "forward_flops_per_token",
        "replay_flops_per_token", "replay_fraction", "replayed_communication", "pointless",
        "neutral", "dual", "forward_cost_per_token", "replay_cost_per_token",
    }  # fmt: skip
    assert found["kind"] == "moe"
    assert found["stash_bytes_per_token"] == 157_184 == sum(found["tensors"].values())
    assert found["tensors"]["x0"] == 14_336
    assert found["tensors"]["lse"] == 512
    assert all(size > 0 for size in found["tensors"].values())
    assert found["forward_flops_per_token"] == 1_338_667_392
    fraction = found["replay_flops_per_token"] / found["forward_flops_per_token"]
    assert found["replay_fraction"] == fraction == pytest.approx(0.0817, abs=5e-5)
    assert found["replayed"] == ["norm1", "q_norm", "kv_norm", "q_up", "kv_up", "rope_q",
                                 "rope_kv", "norm2", "swiglu"]  # fmt: skip
    assert found["forward_cost_per_token"] < found["forward_flops_per_token"]
    assert (found["replayed_communication"], found["pointless"], found["dual"]) == ([], [], [])
    assert "o_proj" in found["neutral"]


def test_block_takes_every_flag_of_the_contract(capsys: Output) -> None:
    found = answer(
        capsys, "block", "--model", "deepseek-v3", "--kind", "dense", "--recipe", "all-fp8",
        "--formats", '{"ffn_down": "bf16"}', "--recompute", "none", "--replay", "attn",
        "--save", "norm1", "--dual-stash", "--seq-len", "8192",
    )  # fmt: skip
    assert found["kind"] == "dense"
    assert found["replayed"] == ["attn"]
    assert found["tensors"]["rstd norm1"] == 4
    assert found["tensors"]["norm1"] == 2 * 7392
    assert found["tensors"]["swiglu"] == 2 * 18432
    assert "lse" not in found["tensors"]
    attention = 128 * 320 * 8192
    assert found["replay_flops_per_token"] == attention
    assert answer(capsys, "block", "--recompute", "full")["replayed_communication"] == [
        "dispatch", "combine"]  # fmt: skip


def test_params_has_every_key_of_the_contract(capsys: Output) -> None:
    found = answer(capsys, "params")
    assert found == answer(capsys, "params", "deepseek-v3")
    assert found["model"] == "deepseek-v3"
    assert found["total"] == 671_026_419_200 == sum(found["by_class"].values())
    assert found["buffers"] == 58 * 256
    assert found["trainable"] == found["total"] - found["buffers"]
    assert found["active"] == 36_625_618_432
    assert found["mtp"] == 11_610_068_224
    assert set(found["by_class"]) == {"embedding", "attention", "dense_ffn", "router",
                                      "routed_experts", "shared_experts", "norms",
                                      "lm_head"}  # fmt: skip
    assert [(layer["kind"], layer["count"]) for layer in found["layers"]] == [
        ("dense", 3), ("moe", 58)]  # fmt: skip
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
    found = answer(capsys, "schedule", "interleaved", "--pp", "2", "--microbatches", "4",
                   "--virtual-stages", "3")  # fmt: skip
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
        capsys, "account", "--pp", "1", "--ep", "1", "--zero", "0", "--recompute", "none",
        "--recipe", "bf16",
    )  # fmt: skip


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
        ("block", ["model", "recipe", "formats", "recompute", "replay", "save", "dual_stash",
                   "seq_len"]),
        ("frontier", ["model", "recipe", "formats", "dual_stash", "seq_len"]),
    ],
)  # fmt: skip
def test_help_names_every_field_with_unit_and_default(
    capsys: Output, command: str, names: list[str]
) -> None:
    main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    shown = {"virtual_stages": "2 for V schedules, else 1", "microbatches": "4 * pp",
             "formats": "none", "replay": "none", "save": "none", "dual_stash": "off",
             "fp8_params": "off"}  # fmt: skip
    for name, default, unit, meaning, _ in field_help():
        if name in names:
            help_of_field = text.split(f"--{name.replace('_', '-')} ")[-1]
            wanted = f"{meaning} [{unit}; default {shown.get(name, default)}]"
            assert wanted in help_of_field, name
    for choice in ("dualpipev", "bf16-moments 2+4+8 = 14", "mixed-both-grads 2+6+12 = 20",
                   "h100 80.0 GiB 79.10 GiB usable"):  # fmt: skip
        assert (choice in text) == (command == "account")


def test_help_of_params_and_schedule_names_their_arguments(capsys: Output) -> None:
    main(["params", "--help"])
    assert "[default deepseek-v3]" in capsys.readouterr().out
    main(["schedule", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for words in ("--pp P pipeline parallelism [degree; no default]", "no default]",
                  "[chunks; default 2 for V schedules, else 1]", "zb1p"):  # fmt: skip
        assert words in text


# --- mistakes -------------------------------------------------------------------------------------

MISTAKES: list[tuple[list[str], str]] = [
    ([], "the following arguments are required"),
    (["acount"], "invalid choice: 'acount'"),
    (["account", "--gpu", "8"], "unrecognized arguments: --gpu"),
    (["account", "--gpus"], "--gpus: expected one argument"),
    (["account", "--gpus", ""], "gpus = ''"),
    (["account", "--gpus", "-1"], "gpus = -1, but a whole number from 1"),
    (["account", "--gpus", "-2048"], "gpus = -2048"),
    (["account", "--gpus", "0"], "gpus = 0"),
    (["account", "--gpus", "2e3"], "gpus = 2000.0"),
    (["account", "--gpus", "2048.0"], "gpus = 2048.0"),
    (["account", "--gpus", "nan"], "gpus = 'nan'"),
    (["account", "--gpus", "inf"], "gpus = 'inf'"),
    (["account", "--gpus", "1e999"], "gpus = inf"),
    (["account", "--gpus", "true"], "gpus = 'true'"),
    (["account", "--gpus", "0x800"], "gpus = '0x800'"),
    (["account", "--gpus", "2_048"], "gpus = '2_048'"),
    (["account", "--gpus", "\u0662"], "gpus = '\u0662'"),  # a digit, but not one of JSON's
    (["account", "--gpus", "9" * 300], "gpus = 999"),
    (["account", "--gpus", "9" * 100_000], "gpus = '999"),
    (["account", "--gpus", "2047"], "must divide gpus, and 2047 / 8 is not whole"),
    (["account", "--seq-len", "1" + "0" * 30], "seq_len = 1000000000000000000000000000000"),
    (["account", "--model", "x" * 10_000], "model 'xxx"),
    (["account", "--model", "\ud800"], r"model '\ud800': neither a config.json nor"),
    (["account", "--model", "/"], "model '/'"),
    (["account", "--schedule", "fifo"], "'fifo'"),
    (["account", "--recipe", "FP8"], "recipe 'FP8': known are bf16"),
    (["account", "--recompute", ""], "recompute '': known are none"),
    (["account", "--device", "h1000"], "device 'h1000': known are h100"),
    (["account", "--optimizer", "adam"], "optimizer 'adam': known are bf16-moments"),
    (["account", "--zero", "4"], "zero = 4, but a whole number from 0 to 3"),
    (["account", "--replay", "norm1,mlp"], "replay: no op 'mlp' to mark"),
    (["account", "--replay", "x0"], "replay: no op 'x0'"),
    (["account", "--replay", "attn", "--save", "attn"], "attn is in both replay and save"),
    (["account", "--formats", "o_proj=bf16"], "--formats: not JSON"),
    (["account", "--formats", ""], "--formats: empty"),
    (["account", "--formats", "null"], "--formats: one JSON object is needed, not null"),
    (["account", "--formats", "[]"], "--formats: one JSON object is needed, not an array"),
    (["account", "--formats", '{"attn": 8}'], "formats = {'attn': 8}, but an object"),
    (["account", "--formats", '{"attn": "e5m6"}'], "only o_proj may be stored as e5m6"),
    (["account", "--formats", '{"x0": "bf16"}'], "formats: no site 'x0'"),
    (["account", "--formats", '{"attn": "e4m3", "attn": "bf16"}'], "'attn' stands twice"),
    (["account", "--dual-stash=yes"], "ignored explicit argument 'yes'"),
    (["account", "--reserve-gib", "-1"], "reserve_gib = -1"),
    (["account", "--reserve-gib", "NaN"], "reserve_gib = 'NaN'"),
    (["account", "--reserve-gib", "1e400"], "reserve_gib = inf"),
    (["account", "--rank", "8"], "rank = 8, but peak, all or a number from 0 to 7"),
    (["account", "--rank", "-1"], "rank = -1, but"),
    (["account", "--rank", "first"], "rank = first, but"),
    (["account", "--rank", "1.0"], "rank = 1.0, but"),
    (["account", "nowhere.json"], "nowhere.json: cannot be read (No such file or directory)"),
    (["account", "/"], "/: cannot be read (Is a directory)"),
    (["account", "\ud800"], "cannot be read (not a file name)"),
    (["account", "a.json", "b.json"], "unrecognized arguments: b.json"),
    (["account", "a.json", "--batch", "b.jsonl"], "give a plan file or --batch, not both"),
    (["account", "--batch", "nowhere.jsonl"], "nowhere.jsonl: cannot be read (No such file"),
    (["account", "--batch", "/"], "/: cannot be read (Is a directory)"),
    (["block", "--kind", "sparse"], "kind 'sparse': deepseek-v3 has dense and moe blocks"),
    (["block", "--kind", "dense", "--replay", "router"], "replay: no op 'router' to mark"),
    (["block", "--seq-len", "0"], "seq_len = 0"),
    (["block", "--seq-len", "4096.5"], "seq_len = 4096.5"),
    (["block", "--recipe", "int8"], "recipe 'int8'"),
    (["block", "--formats", '{"attn": null}'], "formats = {'attn': None}, but an object"),
    (["block", "--pp", "8"], "unrecognized arguments: --pp 8"),
    (["params", "gpt"], "model 'gpt': neither a config.json nor one of deepseek-v3"),
    (["params", ""], "model ''"),
    (["params", "a", "b"], "unrecognized arguments: b"),
    (["schedule"], "required: NAME, --pp, --microbatches"),
    (["schedule", "1f1b", "--pp", "8"], "required: --microbatches"),
    (["schedule", "lifo", "--pp", "8", "--microbatches", "8"], "'lifo'"),
    (["schedule", "1f1b", "--pp", "0", "--microbatches", "8"], "pp = 0"),
    (["schedule", "1f1b", "--pp", "x", "--microbatches", "8"], "pp = 'x'"),
    (["schedule", "1f1b", "--pp", "8", "--microbatches", "-8"], "microbatches = -8"),
    (["schedule", "dualpipev", "--pp", "8", "--microbatches", "15"], "microbatches = 15"),
    (["schedule", "dualpipe", "--pp", "7", "--microbatches", "16"], "pp = 7 is odd"),
    (["schedule", "gpipe", "--pp", "2", "--microbatches", "2", "--virtual-stages", "2"],
     "virtual_stages = 2"),
    (["schedule", "gpipe", "--pp", "9" * 10, "--microbatches", "9" * 10], "forwards, but at most"),
    (["--bogus"], ""),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=lambda value: str(value)[:60])
def test_a_mistake_is_one_line_and_exit_2(
    capsys: Output, arguments: list[str], words: str
) -> None:
    with_json = [*arguments, "--json"] if len(arguments) > 1 else arguments
    for given_arguments in (arguments, with_json):
        assert words in mistake(capsys, *given_arguments)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty, one JSON object is needed"),
        (b'{"pp": 8', "not JSON"),
        (b'{"pp": 8, "pp": 16}', "the key 'pp' stands twice"),
        (b"\xff\xfe{}", "not UTF-8 text"),
        (b'{"model": "caf\xe9"}', "not UTF-8 text"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"replay": ' + b"[" * 100_000, "nested too deeply"),
        (b"null", "not null"),
        (b'{"gpus": NaN}', "NaN is not a number"),
        (b'{"gpus": 1e999}', "gpus = inf"),
        (b'{"gpus": "2048"}', "gpus = '2048'"),
        (b'{"gpus": true}', "gpus = True"),
        (b'{"gpus": null}', "gpus = null"),
        (b'{"gpu": 1}', "no field 'gpu'"),
        (b'{"gpus": ' + b"9" * 10_000 + b"}", "a number of 10000 digits"),
        (b'{"model": "\\ud800"}', r"model '\ud800'"),
        (b'{"\\ud800": 1}', r"no field '\ud800'"),
        (b'{"model": "a\\nb\\u2028c"}', r"model 'a\nb\u2028c'"),
        (b'{"model": "a\\u0000b"}', r"model 'a\x00b'"),
        (b'{"replay": "norm1"}', "replay = 'norm1', but a list"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_plan_file_is_one_line_and_exit_2(
    capsys: Output, tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    assert words in mistake(capsys, "account", str(path))
    path.chmod(0o600)
    config = mistake(capsys, "account", "--model", str(path))  # the same file as a model's config
    assert str(path) in config


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    arguments=st.lists(
        st.sampled_from(
            ["account", "block", "params", "schedule", "--json", "--rank", "--batch", "--replay",
             "--formats", "--pp", "--gpus", "--schedule", "dualpipev", "1f1b", "-1", "8", "all",
             "--", "-", "{}", "null", "--dual-stash", "--help", "--microbatches", "16", "norm1"]
        )
        | st.text(max_size=6),
        max_size=7,
    )
)  # fmt: skip
def test_any_arguments_give_an_answer_or_one_line(capsys: Output, arguments: list[str]) -> None:
    if "--batch" in arguments and "-" in arguments:
        return  # would wait for the terminal
    status = main(arguments)
    out, err = capsys.readouterr()
    assert status in (0, 2)
    if status == 0:
        assert out
        assert err == ""
    else:
        check_line(err)
        assert out == "" or "--batch" in arguments


# --- batch ----------------------------------------------------------------------------------------

GOOD, BAD = b'{"pp": 16}', b'{"pp": 3}'


def batch(capsys: Output, path: Path, *flags: str) -> tuple[int, list[Any], str]:
    status = main(["account", "--batch", str(path), *flags])
    out, err = capsys.readouterr()
    assert out == "" or out.endswith("\n")
    return status, [json.loads(line) for line in out.splitlines()], err


def test_a_batch_answers_line_by_line_in_order(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "plans.jsonl"
    path.write_bytes(b'{}\n{"pp": 16}\n{"recompute": "full"}\n')
    status, found, err = batch(capsys, path)
    assert (status, err) == (0, "")
    for document, flags in zip(found, [[], ["--pp", "16"], ["--recompute", "full"]], strict=True):
        assert document == answer(capsys, "account", *flags)


def test_flags_apply_to_every_line_of_a_batch(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "plans.jsonl"
    path.write_bytes(b'{"zero": 3}\n{"pp": 16, "zero": 2}')
    _, found, _ = batch(capsys, path, "--zero", "0", "--rank", "all", "--json")
    assert [document["plan"]["zero"] for document in found] == [0, 0]
    assert [len(document["ranks"]) for document in found] == [8, 16]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("last", [b"", b"\n"], ids=["no final newline", "final newline"])
def test_bad_and_blank_lines_lose_nothing(
    capsys: Output, tmp_path: Path, newline: bytes, last: bytes
) -> None:
    lines = [GOOD, b"", BAD, b"  \t", b'{"pp": 8', GOOD, b"\xff", b"null", b"[" * 10_000,
             b'{"a": NaN}', b'{"pp": 8, "pp": 8}', b'{"pp": 9' + b"9" * 5000 + b"}",
             b'{"model": "\\ud800"}', GOOD]  # fmt: skip
    path = tmp_path / "plans.jsonl"
    path.write_bytes(newline.join(lines) + (last and newline))
    status, found, err = batch(capsys, path)
    assert status == 2
    assert check_line(err) == "11 of 14 lines are not valid plans"
    assert len(found) == len(lines)
    expected = answer(capsys, "account", "--pp", "16")
    for line, document in zip(lines, found, strict=True):
        if line == GOOD:
            assert document == expected
        else:
            assert list(document) == ["error"]
            assert document["error"]
            assert "\n" not in document["error"]
    assert found[1]["error"] == "line 2: empty, one JSON object is needed"


def test_a_blank_last_line_counts_and_an_empty_batch_is_a_mistake(
    capsys: Output, tmp_path: Path
) -> None:
    path = tmp_path / "plans.jsonl"
    path.write_bytes(b"{}\n\n")
    status, found, err = batch(capsys, path)
    assert (status, len(found)) == (2, 2)
    assert check_line(err) == "1 of 2 lines are not valid plans"
    path.write_bytes(b"")
    assert "empty, one plan a line is needed" in mistake(capsys, "account", "--batch", str(path))


def test_a_batch_with_a_rank_that_one_plan_lacks(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "plans.jsonl"
    path.write_bytes(b'{"pp": 8}\n{"pp": 16}\n')
    status, found, _ = batch(capsys, path, "--rank", "12")
    assert status == 2
    assert "rank = 12" in found[0]["error"]
    assert found[1]["ranks"][0]["rank"] == 12


def test_a_batch_from_standard_input() -> None:
    done = run("account", "--batch", "-", input=b'{"pp": 16}\r\nx\r\n\r\n{}')
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 2
    assert ["error" in document for document in found] == [False, True, True, False]
    assert found[0]["plan"]["pp"] == 16
    assert check_line(done.stderr.decode()) == "2 of 4 lines are not valid plans"


# --- as a process ---------------------------------------------------------------------------------


def test_the_module_runs_from_a_checkout_with_nothing_installed(tmp_path: Path) -> None:
    """With neither site-packages nor environment, and with modules of the standard library only."""
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from memmodel.__main__ import main; "
        "status = main(sys.argv[1:]); "
        "loaded = {name.partition('.')[0] for name in sys.modules}; "
        "print(sorted(loaded - set(sys.stdlib_module_names) - {'__main__'}), file=sys.stderr); "
        "sys.exit(status)"
    )
    for arguments in (["account", "--json"], ["block"], ["params"],
                      ["schedule", "zbv", "--pp", "4", "--microbatches", "8"]):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-W", "error", "-c", program, *arguments],
            cwd=tmp_path, capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr.decode().strip() == "['memmodel']"


def test_a_mistake_in_a_process_leaves_status_2_and_one_line() -> None:
    done = run("account", "--gpus", "2047")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "must divide gpus" in check_line(done.stderr.decode())
    done = run("account", "--model", "\udcff\udcfe")  # bytes that are no text
    assert (done.returncode, done.stdout) == (2, b"")
    check_line(done.stderr.decode())


@pytest.mark.parametrize(
    "arguments",
    [["account", "--json"], ["schedule", "1f1b", "--pp", "8", "--microbatches", "4000", "--json"],
     ["account", "--help"], ["account", "--batch", "-"]],
    ids=" ".join,
)  # fmt: skip
def test_a_reader_that_leaves_gives_no_traceback(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # nobody will ever read
    try:
        done = subprocess.run(
            [sys.executable, "-m", "memmodel", *arguments],
            cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, input=b"x\n" * 50, check=False,
            timeout=60,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert done.stderr == b""
    assert done.returncode in (0, 141) if "--help" in arguments else done.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "memmodel", "account"],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    assert "the output cannot be written" in check_line(done.stderr.decode())


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="only Unix has /dev/zero")
def test_a_file_without_end_is_refused() -> None:
    done = run("account", "/dev/zero")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "/dev/zero: more than" in check_line(done.stderr.decode())


def test_numbers_with_the_least_terminal(capsys: Output) -> None:
    """Tables and errors need no more than ASCII, whatever the locale."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    for arguments in (["account", "--rank", "all"], ["block"], ["params"], ["--help"]):
        done = run(*arguments, env=environment)
        assert (done.returncode, done.stderr) == (0, b"")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("memmodel ")
