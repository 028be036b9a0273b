"""The outputs stored in the notebooks are what their cells give, every time and to the digit."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
BOOK = sorted((ROOT / "book").glob("*.ipynb"))
nb: Any = nbformat  # publishes no types for what is used here
# One cell of each kind that a page has: a printed number, a value, a figure with its controls.
CELLS = (
    'print(f"{671026419200 * 2 / 2**40:.2f} TiB")',
    "2**10",
    "from demo_figure import FIGURE\nfrom memmodel.widgets import explore\nexplore(FIGURE)",
)

pytestmark = pytest.mark.slow


class Nbval:
    """Runs nbval in a process of its own; its kernels can be told from all others."""

    def __init__(self, runtime: Path) -> None:
        self.runtime = runtime
        self.environment = os.environ | {
            "JUPYTER_RUNTIME_DIR": str(runtime),  # part of each kernel's command line
            "PYTHONPATH": str(ROOT / "tests"),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }

    def __call__(self, *notebooks: Path) -> subprocess.CompletedProcess[str]:
        """Compare every cell's output with the stored one, strictly."""
        options = (
            "-q",
            "-o",
            "addopts=",
            "--nbval",
            "--nbval-current-env",
            "-p",
            "no:cacheprovider",
        )
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, *map(str, notebooks)],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def kernels(self) -> list[str]:
        """Return the command lines of its kernels that still run."""
        lines = []
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                lines.append(process.read_text().replace("\0", " "))
            except OSError:
                continue  # it ended in the meantime
        return [line for line in lines if str(self.runtime) in line]


@pytest.fixture
def nbval(tmp_path: Path) -> Iterator[Nbval]:
    runner = Nbval(tmp_path / "runtime")
    yield runner
    assert runner.kernels() == []


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a small notebook with its outputs, as JupyterLab would have stored it."""
    made = nb.v4.new_notebook(
        cells=[nb.v4.new_code_cell(cell, id=f"cell-{i}") for i, cell in enumerate(CELLS)],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    here = tmp_path_factory.mktemp("kernel")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT / "tests")
    try:
        NotebookClient(made, resources={"metadata": {"path": str(here)}}).execute()
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before
    return made


def save(notebook: Any, path: Path) -> Path:
    nb.write(notebook, path)
    return path


def text_of(output: Any) -> tuple[Any, str]:
    """Return where an output keeps its text: the mapping and its key."""
    return (output, "text") if output["output_type"] == "stream" else (output["data"], "text/plain")


def with_one_number_changed(text: str) -> str:
    """Change the first digit of a text.

    >>> with_one_number_changed("Total 912 GiB")
    'Total 012 GiB'
    """
    return re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), text, count=1)


@pytest.mark.skipif(not BOOK, reason="the book has no notebooks yet")
def test_every_notebook_of_the_book_passes_twice_in_a_row(nbval: Nbval) -> None:
    for _ in range(2):
        done = nbval(*BOOK)
        assert done.returncode == 0, done.stdout
        assert re.search(r"\d+ passed", done.stdout)


@pytest.mark.skipif(not BOOK, reason="the book has no notebooks yet")
def test_one_changed_number_of_the_book_fails(nbval: Nbval, tmp_path: Path) -> None:
    stored = nb.read(BOOK[0], as_version=4)
    for number, cell in enumerate(stored.cells):
        for output in cell.get("outputs", []):
            where, key = text_of(output)
            if re.search(r"\d", where.get(key, "")):
                stored.cells = stored.cells[: number + 1]  # what comes after would take time only
                sound = save(copy.deepcopy(stored), tmp_path / "sound.ipynb")
                where[key] = with_one_number_changed(where[key])
                assert nbval(sound).returncode == 0
                done = nbval(save(stored, tmp_path / "changed.ipynb"))
                assert done.returncode == 1
                assert "1 failed" in done.stdout
                return
    pytest.fail(f"{BOOK[0].name} shows no number")


def test_figures_with_controls_pass_twice_in_a_row(
    notebook: Any, nbval: Nbval, tmp_path: Path
) -> None:
    path = save(notebook, tmp_path / "figure.ipynb")
    again = Path(shutil.copy(path, tmp_path / "again.ipynb"))
    done = nbval(path, again)
    assert done.returncode == 0, done.stdout
    assert f"{2 * len(CELLS)} passed" in done.stdout


def test_a_figure_s_output_has_its_four_formats(notebook: Any) -> None:
    (output,) = notebook.cells[-1].outputs
    assert set(output["data"]) == {
        "application/vnd.jupyter.widget-view+json",
        "image/png",
        "text/html",
        "text/plain",
    }


def test_each_changed_number_fails_whether_printed_returned_or_drawn(
    notebook: Any, nbval: Nbval, tmp_path: Path
) -> None:
    changed = copy.deepcopy(notebook)
    for cell in changed.cells:
        where, key = text_of(cell.outputs[0])
        where[key] = with_one_number_changed(where[key])
    page = copy.deepcopy(notebook)
    html = page.cells[-1].outputs[0]["data"]
    html["text/html"] = html["text/html"].replace("128 GiB", "129 GiB")
    assert html["text/html"] != notebook.cells[-1].outputs[0]["data"]["text/html"]
    done = nbval(save(changed, tmp_path / "changed.ipynb"), save(page, tmp_path / "page.ipynb"))
    assert done.returncode == 1
    assert f"{len(CELLS) + 1} failed, {len(CELLS) - 1} passed" in done.stdout
