"""Chromium for the tests: no host but this machine, and a record of what a page does wrong."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, sync_playwright

FLAGS = (
    "--no-sandbox",  # the tests also run as root, where the sandbox refuses to start
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # every other host is out of reach
)


def chromium() -> str | None:
    """Return the path of the browser on this machine, or None. CHROMIUM overrides the search."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = (shutil.which(name) for name in names)
    return os.environ.get("CHROMIUM") or next((path for path in found if path), None)


@contextmanager
def launch() -> Iterator[Browser]:
    """Start the browser; its profile is new and empty, and gone afterwards."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    protocol_version = "HTTP/1.1"
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".wasm": "application/wasm",  # needed to compile while it streams
        ".js": "text/javascript",
        ".mjs": "text/javascript",
    }

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has there
        pass

    def handle(self) -> None:
        with suppress(ConnectionError):  # a page that is closed drops what it was still loading
            super().handle()


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of the loopback interface and yield its address."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with QuietServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def is_local(url: str) -> bool:
    """Whether an address stays on this machine.

    >>> is_local("http://127.0.0.1:8000/a.js"), is_local("data:text/css,"), is_local("https://a.org/")
    (True, True, False)
    """
    parts = urlsplit(url)
    return parts.scheme in {"file", "data", "blob", "about"} or parts.hostname == "127.0.0.1"


def watch(page: Page) -> list[str]:
    """Return a list that fills with whatever goes wrong on a page: it should stay empty.

    Console errors and warnings, uncaught exceptions, failed requests, answers of 400 and above, and
    requests to any other host.
    """
    problems: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            problems.append(f"console {message.type}: {message.text}")

    def on_request(request: Request) -> None:
        if not is_local(request.url):
            problems.append(f"request to another host: {request.url}")

    def on_failure(request: Request) -> None:
        # a page that is left drops what it was still loading; that is no failure of the page
        if request.failure and "ERR_ABORTED" not in request.failure:
            problems.append(f"failed request: {request.url} ({request.failure})")

    def on_response(response: Response) -> None:
        if response.status >= 400:
            problems.append(f"status {response.status}: {response.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
    page.on("request", on_request)
    page.on("requestfailed", on_failure)
    page.on("response", on_response)
    return problems
