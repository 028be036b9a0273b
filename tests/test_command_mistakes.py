"""Mistakes on the command line: one line on standard error, status 2, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli import Output, check_line, mistake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memmodel.__main__ import main

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
    (
        ["schedule", "gpipe", "--pp", "2", "--microbatches", "2", "--virtual-stages", "2"],
        "virtual_stages = 2",
    ),
    (["schedule", "gpipe", "--pp", "9" * 10, "--microbatches", "9" * 10], "forwards, but at most"),
    (
        ["schedule", "gpipe", "--pp", "2", "--microbatches", "131073"],
        "262146 forwards, but at most 262144",
    ),
    (
        ["schedule", "interleaved", "--pp", "2", "--microbatches", "2", "--virtual-stages", "129"],
        "virtual_stages = 129, but a whole number from 1 to 128",
    ),
    (["--bogus"], "the following arguments are required"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=lambda value: str(value)[:60])
def test_a_mistake_is_one_line_and_exit_2(capsys: Output, arguments: list[str], words: str) -> None:
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
            [
                "account",
                "block",
                "frontier",
                "params",
                "schedule",
                "--json",
                "--rank",
                "--batch",
                "--replay",
                "--formats",
                "--pp",
                "--gpus",
                "--schedule",
                "dualpipev",
                "1f1b",
                "-1",
                "8",
                "all",
                "--",
                "-",
                "{}",
                "null",
                "--dual-stash",
                "--help",
                "--microbatches",
                "16",
                "norm1",
            ]
        )
        | st.text(max_size=6),
        max_size=7,
    )
)
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
