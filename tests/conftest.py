"""What several test modules share: the built book and a browser to look at it with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium, launch, serve, watch
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent

OpenPage = Callable[..., tuple[Page, list[str]]]


@pytest.fixture(scope="session")
def book() -> Path:
    """The folder of the built book; it is built here if its sources have changed."""
    done = subprocess.run(
        [sys.executable, "book/build.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def site(book: Path) -> Iterator[str]:
    """The address at which the built book is served."""
    with serve(book) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium with every other host out of reach."""
    if not chromium():
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs Chromium: .ci/run installs it")
        pytest.skip("no Chromium on this machine (set CHROMIUM to its path if it has another name)")
    with launch() as running:
        yield running


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """A function that opens an address in a fresh context: open_page(url, width=360, ...).

    It returns the page and the list of its problems (see `browser.watch`), which stays live.
    Further keywords go to playwright's `new_context`.
    """
    contexts = []

    def open_(
        url: str, width: int = 1280, height: int = 900, **options: Any
    ) -> tuple[Page, list[str]]:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        problems = watch(page)
        page.goto(url, wait_until="load")
        return page, problems

    yield open_
    for context in contexts:
        context.close()
