"""What every page of the book gets: licence, date of its last change, links to its source."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

FOOTER = (
    '<p>Text and figures: <a rel="license" href="{about}#licences">CC BY 4.0</a>. Code: MIT. '
    '<a href="{about}#how-to-cite">How to cite</a></p>'
)
# A page opened from disk may not fetch the others, which the search does for its excerpts.
NO_EXCERPTS = (
    'if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;'
)
# The theme remembers light or dark; a browser that may store nothing would stop its first line.
FORGETFUL = """<script>
try { localStorage; } catch {
  const kept = new Map();
  Object.defineProperty(window, "localStorage", { value: {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => kept.set(key, String(value)),
    removeItem: (key) => kept.delete(key),
  } });
}
</script>
"""
PRELOAD = re.compile(r'\s*<link rel="preload"[^>]*>')


def source_links(app: Sphinx, config: Config) -> None:
    """Switch on the edit and issue buttons as soon as the repository has an address."""
    options = config.html_theme_options
    if options.get("repository_url"):
        for button in ("use_repository_button", "use_edit_page_button", "use_issues_button"):
            options[button] = True


def last_change(page: Path) -> str | None:
    """Return the date of the last commit of a page, or nothing outside a git checkout."""
    command = ["git", "log", "-1", "--format=%cs", "--", page.name]
    try:
        done = subprocess.run(command, cwd=page.parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None


def fill_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """Date the page by its last commit, not by the build: a rebuild changes nothing."""
    context["theme_extra_footer"] = FOOTER.format(about=context["pathto"]("book/about"))
    context["last_updated"] = None
    context["metatags"] = FORGETFUL + context.get("metatags", "")
    if pagename == "search":
        app.add_js_file(None, body=NO_EXCERPTS)
    if doctree is not None:
        context["last_updated"] = last_change(Path(app.env.doc2path(pagename)))


def drop_preloads(app: Sphinx, exception: Exception | None) -> None:
    """Take out the theme's font preloads: a page opened from disk may not do that, and says so."""
    if exception is None and app.builder.format == "html":
        for page in Path(app.outdir).rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            page.write_text(PRELOAD.sub("", text), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tie the functions above to the moments of a build."""
    app.connect("config-inited", source_links)
    app.connect("html-page-context", fill_page)
    app.connect("build-finished", drop_preloads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
