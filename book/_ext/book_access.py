"""What the theme leaves open for readers with a screen reader or a keyboard, set right at the end.

Each entry is a piece of the theme's or the builder's own HTML; a rule that finds nothing to do any
more has done its time and fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

REPAIRS = {
    "the search button is called what it shows": (
        re.compile(r'(<button class="btn search-button-field[^>]*?)\s+aria-label="Search"'),
        r"\1",
    ),
    "the book's title is part of a landmark": (
        re.compile(r'<div class="sidebar-primary-item">(\s*<a class="navbar-brand)'),
        r'<div class="sidebar-primary-item" role="navigation" aria-label="First page">\1',
    ),
    "references are the items of their list": (
        re.compile(r'(<div class="citation"[^>]*) role="doc-biblioentry"'),
        r'\1 role="listitem"',
    ),
}


def repair(app: Sphinx, exception: Exception | None) -> None:
    """Apply every repair to every page."""
    if exception is not None or app.builder.format != "html":
        return
    unused = set(REPAIRS)
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for name, (found, better) in REPAIRS.items():
            text, count = found.subn(better, text)
            if count:
                unused.discard(name)
        page.write_text(text, encoding="utf-8")
    if unused:
        raise ExtensionError(f"nothing to repair any more: {', '.join(sorted(unused))}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Run when all pages are written."""
    app.connect("build-finished", repair)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
