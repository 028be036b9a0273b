"""The command as a process: from a bare checkout, into a pipe that closes, onto a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli import ROOT, Output, check_line, run

from memmodel.__main__ import main


def test_the_module_runs_from_a_checkout_with_nothing_installed(tmp_path: Path) -> None:
    """With neither site-packages nor environment, and with modules of the standard library only."""
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from memmodel.__main__ import main; "
        "status = main(sys.argv[1:]); "
        "loaded = {name.partition('.')[0] for name in sys.modules}; "
        "print(sorted(loaded - set(sys.stdlib_module_names) - {'__main__'}), file=sys.stderr); "
        "sys.exit(status)"
    )
    for arguments in (
        ["account", "--json"],
        ["block"],
        ["params"],
        ["schedule", "zbv", "--pp", "4", "--microbatches", "8"],
    ):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-W", "error", "-c", program, *arguments],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.decode().strip() == "['memmodel']"


def test_a_mistake_in_a_process_leaves_status_2_and_one_line() -> None:
    done = run("account", "--gpus", "2047")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "must divide gpus" in check_line(done.stderr.decode())
    done = run("account", "--model", "\udcff\udcfe")  # bytes that are no text
    assert (done.returncode, done.stdout) == (2, b"")
    check_line(done.stderr.decode())


def test_a_name_that_the_output_cannot_print_is_spelled_out(tmp_path: Path) -> None:
    path = tmp_path / "modèle.json"
    path.write_bytes((ROOT / "memmodel" / "zoo" / "deepseek-v3.json").read_bytes())
    done = run("params", str(path), env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"mod\xe8le.json: 3 dense layers" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["account", "--json"],
        ["schedule", "1f1b", "--pp", "8", "--microbatches", "4000", "--json"],
        ["account", "--help"],
        ["account", "--batch", "-"],
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_gives_no_traceback(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # nobody will ever read
    try:
        done = subprocess.run(
            [sys.executable, "-m", "memmodel", *arguments],
            cwd=ROOT,
            stdout=writer,
            stderr=subprocess.PIPE,
            input=b"x\n" * 50,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert done.stderr == b""
    assert done.returncode in (0, 141) if "--help" in arguments else done.returncode == 141


def test_an_interrupt_is_one_line() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "memmodel", "account", "--batch", "-"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        # More than a pipe and its buffers hold: once some is out, the command is at work.
        process.stdin.write(b"{}\n" * 50)
        process.stdin.flush()
        process.stdout.read(1000)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert check_line(err.decode()) == "interrupted"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "memmodel", "account"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert "the output cannot be written" in check_line(done.stderr.decode())


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="only Unix has /dev/zero")
def test_a_file_without_end_is_refused() -> None:
    done = run("account", "/dev/zero")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "/dev/zero: more than" in check_line(done.stderr.decode())


def test_output_needs_no_more_than_ascii(capsys: Output) -> None:
    """Tables and errors need no more than ASCII, whatever the locale."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    for arguments in (["account", "--rank", "all"], ["block"], ["params"], ["--help"]):
        done = run(*arguments, env=environment)
        assert (done.returncode, done.stderr) == (0, b"")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("memmodel ")
