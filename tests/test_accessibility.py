"""Everyone can use every page: fifteen checks, numbered, most of them in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from accessibility import AXE, EXPLAINED, HEIGHT, ask, axe, look, wait_until_idle
from conftest import OpenPage
from contrast import check_greyscale
from playwright.sync_api import Browser, ElementHandle, Page
from playwright.sync_api import TimeoutError as TooLong

from memmodel.figures import MODULES, get
from memmodel.scene import PALETTE

pytestmark = [pytest.mark.slow, pytest.mark.browser]

THEMES = ("light", "dark")
Pages = dict[str, Page]


@pytest.fixture(scope="module")
def pages(book: Path, site: str, browser: Browser) -> Iterator[Pages]:
    """Every page of the book, open and idle; each test looks at it in its own way."""
    assert AXE.exists(), "axe-core is missing: `make live` takes it from npm"
    context = browser.new_context(viewport={"width": 1280, "height": HEIGHT})
    opened = {}
    for path in sorted(book.rglob("*.html")):
        name = path.relative_to(book).as_posix()
        if not name.startswith(("_static/", "_sources/")) and name != "index.html":
            opened[name] = context.new_page()
            opened[name].goto(f"{site}/{name}")
            wait_until_idle(opened[name])
    yield opened
    context.close()


@pytest.fixture(scope="module")
def live(pages: Pages) -> list[tuple[str, Page, str]]:
    """Every figure with controls: the name of its page, the page, and its selector."""
    found = [
        (name, page, figure) for name, page in pages.items() for figure in ask(page, "figures")
    ]
    assert found, "no page has a figure with controls"
    return found


def drawn(page: Page, figure: str) -> str:
    return page.inner_html(f"{figure} .mm-picture")


def redrawn(page: Page, figure: str, before: str) -> bool:
    """Whether the picture becomes another one within a moment."""
    picture = "document.querySelector(`${figure} .mm-picture`).innerHTML"
    try:
        page.wait_for_function(
            f"([figure, before]) => {picture} !== before",
            arg=[figure, before],
            timeout=2000,
            polling=20,
        )
    except TooLong:
        return False
    return True


def reset(page: Page, figure: str) -> None:
    page.click(f"{figure} .mm-reset:not([aria-disabled=true])")
    page.wait_for_timeout(50)


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_01_02_axe_finds_nothing_and_every_doubt_is_explained(
    pages: Pages, width: int, theme: str, subtests: pytest.Subtests
) -> None:
    for name, page in pages.items():
        look(page, width=width, theme=theme)
        violations, doubts = axe(page, colours_only=theme == "dark")
        with subtests.test("violations", page=name):
            assert not violations, "\n".join(violations)
        with subtests.test("doubts", page=name):
            assert not doubts, "\n".join(doubts)
    assert all(reason.endswith(".") for _, _, reason in EXPLAINED)


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param("unnamedPictures", id="03_every_picture_is_named_or_hidden"),
        pytest.param("misnamedMarks", id="03_every_mark_to_click_is_called_what_it_shows"),
        pytest.param("focusableInImages", id="04_nothing_can_be_focused_inside_an_image"),
        pytest.param("missingFromTables", id="05_a_table_behind_each_figure_has_its_numbers"),
    ],
)
def test_03_04_05(pages: Pages, probe: str, subtests: pytest.Subtests) -> None:
    for name, page in pages.items():
        with subtests.test(page=name):
            assert not (found := ask(page, probe)), "\n".join(found)


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_06_11_controls_fit_a_finger_and_text_in_pictures_is_12_px_at_least(
    pages: Pages, width: int, subtests: pytest.Subtests
) -> None:
    for name, page in pages.items():
        look(page, width=width)
        with subtests.test("targets", page=name):
            assert not (found := ask(page, "smallTargets", 24)), "\n".join(found)
        with subtests.test("text", page=name):
            assert not (found := ask(page, "smallPrint", 12)), "\n".join(found)


def test_07_08_tab_reaches_every_control_and_shows_where_it_is(
    live: list[tuple[str, Page, str]], subtests: pytest.Subtests
) -> None:
    for name, page, figure in live:
        look(page)
        stops = ask(page, "beforeFirstStop", figure)
        seen = []
        for _ in stops:
            page.keyboard.press("Tab")
            seen.append(ask(page, "focused"))
        with subtests.test("reached", page=name, figure=figure):
            assert [at for at, _ in seen] == list(range(len(stops))), stops
        with subtests.test("ring", page=name, figure=figure):
            assert [fault for _, fault in seen if fault] == []


@pytest.mark.parametrize(
    ("kind", "key"), [("select", "ArrowUp"), ("input[type=radio]:checked", "ArrowRight")]
)
def test_07_arrow_keys_turn_lists_and_options(
    live: list[tuple[str, Page, str]], kind: str, key: str, subtests: pytest.Subtests
) -> None:
    for name, page, figure in live:
        control = page.query_selector(f"{figure} form {kind}")
        if control is None:
            continue
        look(page)
        before = drawn(page, figure)
        control.focus()
        first = control.evaluate("(control) => control.selectedIndex === 0")
        page.keyboard.press("ArrowDown" if first else key)
        with subtests.test(page=name, figure=figure):
            assert redrawn(page, figure, before)
        reset(page, figure)


@pytest.mark.parametrize("theme", [0, 1], ids=THEMES)
def test_09_10_pictures_have_the_colours_whose_contrast_is_tested(
    pages: Pages, theme: int, subtests: pytest.Subtests
) -> None:
    palette = {role.replace(" ", "-"): pair[theme] for role, pair in PALETTE.items()}
    for name, page in pages.items():
        look(page, theme=THEMES[theme])
        with subtests.test(page=name):
            assert not (found := ask(page, "wrongColours", palette)), "\n".join(found)


@pytest.mark.parametrize("name", MODULES)
def test_12_pictures_can_be_read_without_colour(name: str) -> None:
    check_greyscale(get(name).scene())


def test_13_pages_reflow_at_320_px_and_what_scrolls_can_be_reached(
    pages: Pages, subtests: pytest.Subtests
) -> None:
    for name, page in pages.items():
        look(page, width=320)
        with subtests.test("reflow", page=name):
            assert page.evaluate("document.documentElement.scrollWidth") <= 320
        with subtests.test("scroll boxes", page=name):
            # The theme makes them reachable a moment after the width has changed.
            for _ in range(50):
                if not (found := ask(page, "badScrollBoxes")):
                    break
                page.wait_for_timeout(100)
            assert not found, "\n".join(found)


def test_14_nothing_moves_for_those_who_asked_for_it(
    pages: Pages, subtests: pytest.Subtests
) -> None:
    for name, page in pages.items():
        look(page, motion="reduce")
        with subtests.test(page=name):
            assert not (found := ask(page, "moving")), "\n".join(found)


def test_15_a_change_comes_on_release_and_says_one_polite_sentence(
    live: list[tuple[str, Page, str]], subtests: pytest.Subtests
) -> None:
    for name, page, figure in live:
        button = page.query_selector(f"{figure} [data-step]:not([aria-disabled=true])")
        if button is None:
            continue
        look(page)
        ask(page, "listen")
        before = drawn(page, figure)
        button.hover()
        page.mouse.down()
        page.wait_for_timeout(100)
        with subtests.test("nothing on press", page=name, figure=figure):
            assert drawn(page, figure) == before
        page.mouse.up()
        with subtests.test("on release", page=name, figure=figure):
            assert redrawn(page, figure, before)
        with subtests.test("one sentence", page=name, figure=figure):
            status = page.inner_text(f"{figure} .mm-status")
            assert page.evaluate("window.said") == [[status, "polite"]]
        reset(page, figure)


def test_15_hints_open_on_focus_stay_under_the_pointer_and_close_on_escape(
    pages: Pages, subtests: pytest.Subtests
) -> None:
    for name, page in pages.items():
        look(page)
        for hint in page.query_selector_all(".mm-figure .mm-hint"):
            button, tip = part(hint, "button"), part(hint, "[role=tooltip]")
            with subtests.test(page=name, hint=button.get_attribute("aria-label")):
                page.mouse.move(0, 0)
                assert not tip.is_visible()
                button.focus()
                assert tip.is_visible()
                page.keyboard.press("Escape")
                assert not tip.is_visible()
                button.evaluate("(button) => button.blur()")
                # In the middle of the window, so that the way to the hint needs no scrolling,
                # which would take the button away from under the pointer.
                button.evaluate("(b) => b.scrollIntoView({block: 'center', behavior: 'instant'})")
                button.hover()
                assert tip.is_visible()
                tip.hover()
                page.wait_for_timeout(100)
                assert tip.is_visible()
                page.keyboard.press("Escape")
                assert not tip.is_visible()


def part(element: ElementHandle, selector: str) -> ElementHandle:
    found = element.query_selector(selector)
    assert found, f"nothing like {selector}"
    return found


FAULTY = """<!doctype html><html lang="en"><title>Faults</title><main>
<figure class="mm-figure" id="faulty">
  <button style="width: 10px; height: 10px; padding: 0; outline: none">a</button>
  <div role="img" aria-label="picture"><a href="#">inside</a></div>
  <svg width="200" height="50"><text class="f-text" x="0" y="20" font-size="9"
    id="faulty-value-1" fill="#cccccc">8 GiB</text><rect id="faulty-bar-1"/>
    <text id="faulty-value-2" y="60">6 MiB</text>
    <g class="mm-mark" role="button" tabindex="0" aria-label="Seven"><text y="40">6</text></g></svg>
  <details><summary>Numbers</summary><table><tr><td>7 GiB</td></tr></table></details>
</figure>
<div style="width: 50px; overflow-x: auto"><div style="width: 500px">wide</div></div>
<p style="transition-duration: 1s; color: #cccccc; background: #ffffff">moves, and is pale</p>
</main></html>"""


def test_each_probe_finds_the_fault_it_is_for(open_page: OpenPage) -> None:
    page, _ = open_page("about:blank")
    page.set_content(FAULTY)
    for probe, argument in {
        "unnamedPictures": None,
        "misnamedMarks": None,
        "focusableInImages": None,
        "missingFromTables": None,
        "smallTargets": 24,
        "smallPrint": 12,
        "wrongColours": {"text": PALETTE["text"][0]},
        "badScrollBoxes": None,
        "moving": None,
    }.items():
        assert ask(page, probe, argument), probe
    assert len(ask(page, "missingFromTables")) == 2, "at a bar, and elsewhere"
    ask(page, "beforeFirstStop", "#faulty")
    page.keyboard.press("Tab")
    at, fault = ask(page, "focused")
    assert (at, bool(fault)) == (0, True)
    violations, _ = axe(page)
    assert any("color-contrast" in line for line in violations)
