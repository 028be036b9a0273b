"""Commands run as a user runs them, and what must be true of their output whatever they do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memmodel.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
Output = pytest.CaptureFixture[str]


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
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=60,
        **options,
    )
