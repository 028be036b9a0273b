"""What the theme leaves open for readers with a screen reader or a keyboard, set right.

Each repair is for a piece of the theme's or the builder's own HTML; one that finds nothing to do
any more has done its time and fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
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
    # Wide ones scroll, and the theme then lets the Tab key stop there: at a place with a name.
    "outputs have a name": (
        re.compile(r'(<div class="output [^"]*"><div class="highlight"><pre)>'),
        r'\1 role="group" aria-label="Output">',
    ),
    "tables that scroll can be reached": (
        re.compile(r'<div class="pst-scrollable-table-container">'),
        '<div class="pst-scrollable-table-container" tabindex="0" role="group" aria-label="Table">',
    ),
    "an id is given once a page": (
        re.compile(r'<section id="(?:exercise|solution)-content">'),
        "<section>",
    ),
    "code has a name": (
        re.compile(r'(<div class="highlight-[^"]*"><div class="highlight"><pre)>'),
        r'\1 role="group" aria-label="Code">',
    ),
}
# The arrows of folds are drawn by a script, beside the words that say the same.
HIDE_ARROWS = """
window.addEventListener("load", () => {
  for (const arrow of document.querySelectorAll("svg.tb-icon")) {
    arrow.setAttribute("aria-hidden", "true");
  }
});
"""
STATIC = Path(__file__).resolve().parent / "static"


def add_files(app: Sphinx, config: Config) -> None:
    """Put the style and the script on every page."""
    config.html_static_path = [*config.html_static_path, str(STATIC)]
    app.add_css_file("access.css")
    app.add_js_file(None, body=HIDE_ARROWS)


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
    """Tie the functions above to the moments of a build."""
    app.connect("config-inited", add_files)
    app.connect("build-finished", repair)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
