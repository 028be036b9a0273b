"""What every page of the book gets: the date of its last change, and links to its source."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config


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
        done = subprocess.run(command, cwd=page.parent, capture_output=True, text=True, check=True)  # noqa: S603 - a page of this book
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None


def date_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """Show the date of the page's last commit, not that of the build: a rebuild changes nothing."""
    context["last_updated"] = None
    if doctree is not None:
        context["last_updated"] = last_change(Path(app.env.doc2path(pagename)))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", source_links)
    app.connect("html-page-context", date_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
