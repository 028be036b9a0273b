"""Build the static book in _build/html, unless it is already built from exactly these sources."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
HTML = BUILD / "html"
WORK = BUILD / "work"
STAMP = BUILD / "book.stamp"
SOURCES = ("book", "memmodel", "_config.yml", "_toc.yml", "requirements.txt")
EXTENSIONS = (ROOT / "book" / "_ext", ROOT / "book" / "_live", ROOT)
NOT_SOURCES = {"node_modules", "__pycache__", ".ipynb_checkpoints"}


def source_files() -> Iterator[Path]:
    """Yield every file that the book is made of, in a fixed order."""
    for source in SOURCES:
        path = ROOT / source
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and NOT_SOURCES.isdisjoint(file.relative_to(ROOT).parts):
                yield file


def fingerprint() -> str:
    """Return a hash of the names and contents of the sources, and of the Python that runs them."""
    digest = hashlib.sha256(repr((sys.version, str(ROOT))).encode())
    for file in source_files():
        content = file.read_bytes()
        digest.update(f"{file.relative_to(ROOT).as_posix()} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def run(*command: str) -> None:
    """Run one of the builders; its own words on stderr say what went wrong."""
    environment = os.environ | {
        "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, not one of the user's
        "PYTHONPATH": os.pathsep.join(map(str, EXTENSIONS)),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}")


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other build of this checkout runs (where the system can lock files)."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# The root's page only leads on. Jupyter Book's own has neither title nor icon, so that a browser
# asks the server for /favicon.ico, and a reader without refresh sees nothing.
FRONT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0; url=book/index.html">
<link rel="icon" href="data:,">
<title>Memory, line by line</title>
</head>
<body><p><a href="book/index.html">Memory, line by line</a></p></body>
</html>
"""


def build_book() -> None:
    """Build all pages afresh, beside the book that is there; a warning is an error."""
    shutil.rmtree(WORK, ignore_errors=True)
    run(sys.executable, "book/_live/build.py")  # what the pages' figures run on
    jupyter_book = "from jupyter_book.cli.main import main; main()"
    options = ("--all", "-W", "-n", "--keep-going", "-q", "--path-output", str(WORK))
    run(sys.executable, "-c", jupyter_book, "build", ".", *options)
    (WORK / "_build" / "html" / "index.html").write_text(FRONT, encoding="utf-8")
    shutil.rmtree(HTML, ignore_errors=True)
    (WORK / "_build" / "html").rename(HTML)
    shutil.rmtree(WORK)


def main() -> None:
    """Build what is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--force", action="store_true", help="build even if nothing has changed")
    arguments = parser.parse_args()
    with alone():
        wanted = fingerprint()
        built = HTML.is_dir() and STAMP.exists() and STAMP.read_text() == wanted
        if arguments.force or not built:
            STAMP.unlink(missing_ok=True)
            build_book()
            STAMP.write_text(wanted)
    print(f"The book: {HTML / 'index.html'}")


if __name__ == "__main__":
    main()
