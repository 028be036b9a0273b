"""Live figures in the built pages: their script and style where they are used, MathJax at home.

The bundle itself is made by book/_live/build.py; without it the pages show their first pictures.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.application import Sphinx
from sphinx.config import Config

SITE = Path(__file__).resolve().parent.parent.parent / "_build" / "live" / "site"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
# Where not even the script loads (half a copy of the folder), a line says so, as live.js would.
LOST = """
for (const form of document.querySelectorAll('.mm-form')) {
  form.insertAdjacentHTML('afterend', `<p class='mm-off' role='status'>The controls do not work
    here: the file live.js did not load. The picture, its numbers and its table stay as they are.`);
}"""
SIGNS = ('class="mm-figure', 'class="mm-guess')


def ship(app: Sphinx, config: Config) -> None:
    """Add the bundle to what is copied beside the pages, and take MathJax from there."""
    if not SITE.is_dir():
        raise RuntimeError("no live/ bundle: run book/_live/build.py first (make book does)")
    config.html_extra_path = [*config.html_extra_path, str(SITE)]
    config.mathjax_path = "../live/tex-svg.js"  # Sphinx adds its own short hash


def version(name: str) -> str:
    """Return a short hash of a shipped file: its address changes only when it does."""
    return hashlib.sha256((SITE / "live" / name).read_bytes()).hexdigest()[:10]


def add_scripts(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """Give pages that hold a figure or a question the script and the style for it.

    The state of the notebook's own widgets, pictures included, is of no use without a kernel.
    """
    context["script_files"] = [
        file
        for file in context.get("script_files", [])
        if getattr(file, "attributes", {}).get("type") != WIDGET_STATE
    ]
    if not any(sign in context.get("body", "") for sign in SIGNS):
        return
    files = ("live.js", "runtime.js", "memmodel.js")
    both = hashlib.sha256("".join(map(version, files)).encode()).hexdigest()[:10]
    script = context["pathto"]("live/live.js", resource=True)
    style = context["pathto"]("live/live.css", resource=True)
    context["metatags"] = (
        f"{context.get('metatags', '')}\n"
        f'<link rel="stylesheet" href="{style}?v={version("live.css")}">\n'
        f'<script defer src="{script}?v={both}" onerror="{LOST}"></script>\n'
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Tie the functions above to the moments of a build."""
    app.connect("config-inited", ship)
    app.connect("html-page-context", add_scripts, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
