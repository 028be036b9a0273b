"""Times the built book in Chromium: bytes shipped, first paint, time to interactive, each change.

Interactive is when the first figure of a page has been drawn once by the page's own Python. Cold
is a new browser profile, warm the same page again; a change is from the event to the new layout.
"""

from __future__ import annotations

import gzip
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from urllib.parse import quote

from browser import launch, serve
from geometry import states
from playwright.sync_api import Browser, Page

from memmodel.figures import MODULES, get

ROOT = Path(__file__).resolve().parent.parent
HTML = ROOT / "_build" / "html"
VISITS, CHANGES = 5, 60
MARKS = """() => Object.fromEntries([
    ...performance.getEntriesByType("paint"), ...performance.getEntriesByType("mark"),
].map((entry) => [entry.name, entry.startTime]))"""
CHANGE = """async (hashes) => {
    const taken = [];
    for (const hash of hashes) {
        history.replaceState(null, "", hash);
        await new Promise((done) => {
            let start;
            requestAnimationFrame(() => { start = performance.now(); });
            dispatchEvent(new Event("hashchange"));
            requestAnimationFrame(() => {
                document.body.getBoundingClientRect(); // the layout belongs to the change
                taken.push(performance.now() - start);
                done();
            });
        });
    }
    return taken;
}"""


def machine() -> str:
    """Processor, cores, load and date: what a time means nothing without."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    model = next((line.split(": ")[1] for line in lines if "model name" in line), "processor")
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{model}, {os.cpu_count()} cores{load}, {platform.system()}, {datetime.now(UTC):%Y-%m-%d}"
    )


def visit(page: Page, url: str) -> dict[str, float]:
    """Open a page and return its marks in ms since the navigation."""
    page.goto(url)
    page.wait_for_function(
        "performance.getEntriesByName('memmodel-warm').length > 0", timeout=60_000
    )
    found: dict[str, float] = page.evaluate(MARKS)
    return found


def visits(browser: Browser, url: str) -> None:
    """Print first paint and time to interactive of one page, cold and warm."""
    cold, warm = [], []
    for _ in range(VISITS):
        with browser.new_context() as context:
            cold.append(visit(context.new_page(), url))
            warm.append(visit(context.new_page(), url))
    for kind, marks in (("cold", cold), ("warm", warm)):
        paint, ready = (
            sorted(mark[name] for mark in marks)
            for name in ("first-contentful-paint", "memmodel-ready")
        )
        aim = {"cold": 1500, "warm": 600}[kind]
        print(
            f"  {kind}: first paint {median(paint):.0f} ms, interactive {median(ready):.0f} ms "
            f"({ready[0]:.0f} to {ready[-1]:.0f}; aim: under {aim})"
        )


def changes(page: Page, name: str, key: str) -> None:
    """Print the time of a change of one figure."""
    hashes = []
    for state in states(get(name), CHANGES):
        parts = [f"{key}.{knob}={quote(value)}" for knob, value in state.items()]
        hashes.append("#" + "&".join(parts))
    taken = page.evaluate(CHANGE, hashes[: 2 * CHANGES])
    print(
        f"  a change of {name}: median {median(taken):.1f} ms, worst {max(taken):.1f} ms "
        f"of {len(taken)} (aim: median under {30 if name == 'schedule' else 16})"
    )


def report() -> None:
    """Print everything."""
    subprocess.run([sys.executable, "book/build.py"], cwd=ROOT, check=True, capture_output=True)
    print(machine())
    sizes = {f.name: len(gzip.compress(f.read_bytes())) for f in (HTML / "live").iterdir()}
    print(f"shipped once, gzipped: {sum(sizes.values()) / 1e6:.2f} MB (aim: at most 5.5)")
    print("  " + ", ".join(f"{name} {size / 1e3:.0f} kB" for name, size in sorted(sizes.items())))
    with launch() as browser, serve(HTML) as address:
        for path in sorted(HTML.glob("book/*.html")):
            html = path.read_text(encoding="utf-8")
            if 'class="mm-figure"' not in html:
                continue
            url = f"{address}/book/{path.name}"
            print(f"{path.name}, {len(gzip.compress(html.encode())) / 1e3:.0f} kB gzipped")
            visits(browser, url)
            page = browser.new_page()
            visit(page, url)
            figures = page.evaluate(
                "[...document.querySelectorAll('.mm-figure[data-figure]')]"
                ".map(({dataset}) => [dataset.figure, dataset.key])"
            )
            for name, key in figures:
                if name in MODULES:
                    changes(page, name, key)
            page.close()


if __name__ == "__main__":
    report()
