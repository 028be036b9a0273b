"""The built book, looked at in a browser with every other host out of reach."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import watch
from playwright.sync_api import Browser, Page

OpenPage = Callable[..., tuple[Page, list[str]]]
ROOT = Path(__file__).resolve().parent.parent

pytestmark = [pytest.mark.slow]
browser_test = pytest.mark.browser


def pages(book: Path) -> list[str]:
    """Every page of the built book, as a path below its address."""
    found = (path.relative_to(book).as_posix() for path in sorted(book.rglob("*.html")))
    return [page for page in found if not page.startswith(("_static/", "_sources/"))]


def chapters(book: Path) -> list[str]:
    """The pages that were written, without the index, the search and the like."""
    return [page for page in pages(book) if page.startswith("book/")]


@browser_test
def test_pages_load_without_an_error_and_fit_a_phone(
    book: Path, site: str, open_page: OpenPage, subtests: pytest.Subtests
) -> None:
    for path in pages(book):
        page, problems = open_page(f"{site}/{path}")
        page.wait_for_load_state("networkidle")
        with subtests.test("loads quietly", page=path):
            assert problems == []
        for width in (360, 320):
            page.set_viewport_size({"width": width, "height": 740})
            with subtests.test("no sideways scroll", page=path, width=width):
                assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.context.close()


@browser_test
def test_pages_load_quietly_where_nothing_may_be_stored(site: str, browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        problems = watch(page)
        page.add_init_script(
            "Object.defineProperty(window, 'localStorage', {configurable: true, "
            "get() { throw new DOMException('denied', 'SecurityError'); }})"
        )
        page.goto(f"{site}/book/02-shard-what-does-not-need-to-be-whole.html")
        page.wait_for_load_state("networkidle")
        for theme in ("dark", "light"):  # after "auto", which is light here
            page.locator("button.theme-switch-button").first.evaluate("(button) => button.click()")
            assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert problems == []


@browser_test
def test_pages_load_from_a_file_on_disk(
    book: Path, open_page: OpenPage, subtests: pytest.Subtests
) -> None:
    for path in chapters(book):
        with subtests.test(page=path):
            page, problems = open_page((book / path).as_uri())
            page.wait_for_load_state("networkidle")
            assert problems == []
            page.context.close()


def test_an_id_is_given_once_a_page(book: Path, subtests: pytest.Subtests) -> None:
    for path in chapters(book):
        with subtests.test(page=path):
            ids = re.findall(r'\sid="([^"]+)"', (book / path).read_text(encoding="utf-8"))
            assert sorted(ids) == sorted(set(ids))


@browser_test
def test_numbers_are_there_without_javascript(site: str, open_page: OpenPage) -> None:
    page, problems = open_page(f"{site}/book/06-fit-it-on-80-gib.html", java_script_enabled=False)
    text = page.locator("article").inner_text()
    assert "66,296,545,344" in text
    assert "61.74 GiB" in text
    assert problems == []


@browser_test
def test_search_works_without_a_server(book: Path, open_page: OpenPage) -> None:
    page, problems = open_page((book / "search.html").as_uri() + "?q=stash")
    page.locator("#search-results li").first.wait_for()
    assert "Glossary" in page.locator("#search-results").inner_text()
    assert problems == []


@browser_test
def test_the_watcher_sees_what_it_should(tmp_path: Path, open_page: OpenPage) -> None:
    """Each kind of problem is planted once: the tests above can fail."""
    (tmp_path / "index.html").write_text(
        "<script src='missing.js'></script><img src='https://example.org/a.png'>"
        "<script>console.error('told'); throw new Error('thrown')</script>",
        encoding="utf-8",
    )
    page, problems = open_page((tmp_path / "index.html").as_uri())
    page.wait_for_load_state("networkidle")
    seen = "\n".join(problems)
    for sign in ("failed request: file", "another host: https", "error: told", "exception: thrown"):
        assert sign in seen


@browser_test
def test_a_wrong_address_leads_home(site: str, open_page: OpenPage) -> None:
    page, problems = open_page(f"{site}/404.html")
    page.get_by_role("link").click()
    page.wait_for_url("**/index.html")
    page.wait_for_load_state("networkidle")
    assert "Memory, line by line" in page.title()
    assert problems == []


def test_no_page_names_another_host_for_what_it_loads(
    book: Path, subtests: pytest.Subtests
) -> None:
    """Also for what a browser would load only later: a frame, a lazily added script."""
    loads = re.compile(
        r"""<(?:script|img|iframe|link|source)\b[^>]*?(?:src|href)=["']((?:https?:)?//[^"']+)"""
    )
    for path in pages(book):
        with subtests.test(page=path):
            html = (book / path).read_text(encoding="utf-8")
            assert loads.findall(html) == []
            assert "unpkg.com" not in html
            assert "jsdelivr" not in html


def test_every_chapter_has_a_description_and_a_licence(
    book: Path, subtests: pytest.Subtests
) -> None:
    for path in chapters(book):
        with subtests.test(page=path):
            html = (book / path).read_text(encoding="utf-8")
            described = re.search(r'<meta content="([^"]+)" name="description"', html)
            assert described, "the page's front matter needs html_meta: description"
            assert 40 <= len(described[1]) <= 200
            assert "CC BY 4.0" in html


def test_every_notebook_can_be_downloaded(book: Path, subtests: pytest.Subtests) -> None:
    notebooks = sorted((ROOT / "book").glob("*.ipynb"))
    assert notebooks
    for notebook in notebooks:
        with subtests.test(notebook=notebook.name):
            html = (book / "book" / f"{notebook.stem}.html").read_text(encoding="utf-8")
            assert f'href="../_sources/book/{notebook.name}"' in html
            assert (book / "_sources" / "book" / notebook.name).is_file()


def test_the_citation_says_the_same_everywhere() -> None:
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    about = (ROOT / "book" / "about.md").read_text(encoding="utf-8")
    for field, bibtex in (("title", "title"), ("version", "version")):
        told = re.search(rf'^{field}: "?(.*?)"?$', cff, re.MULTILINE)
        assert told
        assert re.search(rf"{bibtex}\s*= {{{re.escape(told[1])}}}", about)


def test_credits_name_the_versions_that_are_shipped() -> None:
    about = (ROOT / "book" / "about.md").read_text(encoding="utf-8")
    package = json.loads((ROOT / "book" / "_live" / "package.json").read_text(encoding="utf-8"))
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", requirements, re.MULTILINE))
    titles = {
        "Pyodide": package["dependencies"]["pyodide"],
        "MathJax": package["dependencies"]["mathjax"],
        "Sphinx": pins["sphinx"],
        "Jupyter Book": pins["jupyter-book"],
        "MyST-NB": pins["myst-nb"],
        "Sphinx Book Theme": pins["sphinx-book-theme"],
        "PyData Sphinx Theme": pins["pydata-sphinx-theme"],
        "sphinx-togglebutton": pins["sphinx-togglebutton"],
        "sphinx-design": pins["sphinx-design"],
        "sphinx-exercise": pins["sphinx-exercise"],
    }
    assert len(package["dependencies"]) == 2
    for title, version in titles.items():
        assert f"{title} {version}" in about
