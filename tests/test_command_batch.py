"""A batch of plans: one line in, one document out, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli import Output, answer, check_line, mistake, run

from memmodel.__main__ import main

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
    lines = [
        GOOD,
        b"",
        BAD,
        b"  \t",
        b'{"pp": 8',
        GOOD,
        b"\xff",
        b"null",
        b"[" * 10_000,
        b'{"a": NaN}',
        b'{"pp": 8, "pp": 8}',
        b'{"pp": 9' + b"9" * 5000 + b"}",
        b'{"model": "\\ud800"}',
        GOOD,
    ]
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
