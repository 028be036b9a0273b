"""Looking at a page as axe, a keyboard, a screen reader and a small screen do (see probes.js)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

TESTS = Path(__file__).resolve().parent
AXE = TESTS.parent / "book" / "_live" / "node_modules" / "axe-core" / "axe.min.js"
PROBES = TESTS / "probes.js"
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
OF_COLOUR = ("color-contrast", "link-in-text-block")  # the rules that a theme can break
HEIGHT = 900

# What axe cannot decide by itself, or decides by more than is meant: (rule, where, reason).
EXPLAINED = (
    (
        "color-contrast",
        ".mm-figure svg",
        (
            "Axe does not look behind SVG text. The geometry checks do, on the scene; a test here "
            "compares the colours that the browser uses with the scene's."
        ),
    ),
    (
        "color-contrast",
        ".bd-sidebar-primary",
        "Out of the screen at 390 px, where axe sees no ground; decided at 1280 px.",
    ),
    (
        "color-contrast",
        ".mm-rows, .memmodel-table",
        "Cells partly scrolled out of their box have the colours of those in it.",
    ),
    (
        "color-contrast",
        ".mm-stepper",
        "A sign is no word to axe; − and + have the colours of the list between them.",
    ),
    (
        "label-content-name-mismatch",
        ".mm-stepper",
        "A sign is no word: the buttons − and + are called by what they do.",
    ),
    ("label-content-name-mismatch", ".mm-hint", "A question mark is no word."),
    (
        "label-content-name-mismatch",
        ".mm-mark",
        "A part of a picture shows data besides its name; a test here wants the name in the label.",
    ),
)


def ask(page: Page, probe: str, argument: Any = None) -> Any:
    """Ask the page a question of probes.js."""
    if not page.evaluate("'probes' in window"):
        page.evaluate(PROBES.read_text(encoding="utf-8"))
    return page.evaluate("([probe, argument]) => probes[probe](argument)", [probe, argument])


def axe(page: Page, *, colours_only: bool = False) -> tuple[list[str], list[str]]:
    """Return violations and doubts of axe, without those that are explained."""
    only = (
        {"type": "rule", "values": OF_COLOUR} if colours_only else {"type": "tag", "values": TAGS}
    )
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    explained = [(rule, where) for rule, where, _ in EXPLAINED]
    violations, doubts = ask(page, "axe", {"only": only, "explained": explained})
    return violations, doubts


def wait_until_idle(page: Page) -> None:
    """Wait until nothing is loading any more and the figures answer."""
    page.wait_for_load_state("load")
    page.wait_for_function(
        "[...document.querySelectorAll('.mm-figure[data-figure]')]"
        ".every((figure) => figure.dataset.live === 'ready')",
        timeout=20_000,
        polling=50,  # frames are not drawn on pages in the background
    )


def look(page: Page, *, width: int = 1280, theme: str = "light", motion: str = "reduce") -> None:
    """Look at the page in another way, and wait until it has settled."""
    page.bring_to_front()  # pages in the background draw no frames and hear of no resize
    resized = page.viewport_size != {"width": width, "height": HEIGHT}
    page.emulate_media(color_scheme=theme, reduced_motion=motion)  # type: ignore[arg-type]
    if resized:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.wait_for_timeout(350)  # the theme looks for scroll boxes 300 ms after a resize
    page.wait_for_function(
        "(theme) => (document.documentElement.dataset.theme ?? theme) === theme", arg=theme
    )
