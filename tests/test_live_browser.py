"""Live figures as a reader meets them: the demo figure on a small page of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import serve, watch
from bundle import write_page
from demo_figure import FIGURE
from playwright.sync_api import Browser, Locator, Page, Route

from memmodel.render_html import figure_html, guess_html
from memmodel.scene import PALETTE

pytestmark = [pytest.mark.slow, pytest.mark.browser]

OpenPage = Callable[..., tuple[Page, list[str]]]
READY = "document.querySelector('#mm-demo').dataset.live === 'ready'"
BODY = (
    figure_html(FIGURE)
    + guess_html("How much is all of it?", 8.654, "TiB", "all four bars")
    + "<h2 id='more'>More</h2>"
    + figure_html(FIGURE, fixed={"policy": "full"})
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    write_page(folder, BODY)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serve(folder) as address:
        yield f"{address}/index.html"


def ready(page: Page) -> None:
    page.wait_for_function(READY, timeout=30_000)
    page.wait_for_function("document.querySelectorAll('[data-drawn]').length === 2")


def status(page: Page, figure: str = "#mm-demo") -> Locator:
    return page.locator(f"{figure} .mm-status")


def says(
    page: Page, figure: str = "#mm-demo", fixed: dict[str, str] | None = None, **state: str
) -> None:
    """Wait until a figure shows the scene of a state: its sentence, its bars and its table."""
    scene = FIGURE.scene(**(fixed or {}), **state)
    page.wait_for_function(
        "([figure, text]) => document.querySelector(`${figure} .mm-status`).textContent === text",
        arg=[figure, scene.status],
        timeout=20_000,
    )
    assert page.locator(f"{figure} .mm-svg desc").first.text_content() == scene.alt
    cells = page.locator(f"{figure} .mm-table tbody td").all_text_contents()
    assert cells == [cell for row in scene.table.rows for cell in row[1:]]


@pytest.mark.parametrize("from_disk", [False, True], ids=["http", "file"])
def test_each_control_and_mark_moves_the_picture(
    folder: Path, url: str, open_page: OpenPage, from_disk: bool
) -> None:
    page, problems = open_page((folder / "index.html").as_uri() if from_disk else url)
    ready(page)
    says(page)
    demo = page.locator("#mm-demo")
    demo.get_by_label("everything").check()
    says(page, policy="full")
    demo.get_by_role("button", name="Ranks: double").click()
    says(page, policy="full", ranks="16")
    demo.get_by_label("Ranks", exact=True).select_option("64")
    says(page, policy="full", ranks="64")
    assert demo.get_by_role("button", name="Ranks: double").get_attribute("aria-disabled") == "true"
    demo.get_by_role("switch").click()
    demo.get_by_role("button", name="Select optimizer").click()
    says(page, policy="full", ranks="64", ghost="off", selected="optimizer")
    assert page.locator("#mm-demo-ghost-weights").count() == 0
    demo.get_by_role("button", name="Reset").click()
    says(page)
    says(page, "#mm-demo-full", {"policy": "full"})  # the other figure never moved
    assert problems == []


def test_a_combination_that_is_refused_becomes_a_sentence(url: str, open_page: OpenPage) -> None:
    page, problems = open_page(f"{url}#demo.policy=impossible&demo.ranks=16")
    ready(page)
    says(page, policy="impossible", ranks="16")
    assert "No such plan" in (page.locator("#mm-demo .mm-svg").text_content() or "")
    page.locator("#mm-demo").get_by_label("nothing").check()
    says(page, ranks="16")
    assert problems == []


def test_without_javascript_picture_numbers_and_table_are_there(
    url: str, open_page: OpenPage
) -> None:
    page, problems = open_page(url, java_script_enabled=False)
    assert status(page).inner_text() == FIGURE.scene().status
    assert page.locator("#mm-demo-bar-weights").is_visible()
    page.locator("#mm-demo summary").click()
    assert page.locator("#mm-demo .mm-table").is_visible()
    assert page.locator("#mm-demo select").is_disabled()
    assert "need JavaScript" in page.locator("#mm-demo .mm-off").inner_text()
    assert not page.locator(".mm-ask").is_visible()
    page.locator(".mm-answer summary").click()
    assert page.locator(".mm-answer p").inner_text() == "8.65 TiB: all four bars."
    assert problems == []


def test_the_address_holds_what_was_changed_and_survives_a_reload(
    url: str, open_page: OpenPage
) -> None:
    page, problems = open_page(url)
    ready(page)
    page.locator("#mm-demo").get_by_role("button", name="Ranks: halve").click()
    page.locator("#mm-demo-full").get_by_role("button", name="Select weights").click()
    page.wait_for_url("**#demo.ranks=4&demo-full.selected=weights")
    page.reload()
    ready(page)
    says(page, ranks="4")
    says(page, "#mm-demo-full", {"policy": "full"}, selected="weights")
    assert page.locator("#mm-demo select").input_value() == "4"
    page.locator("#mm-demo").get_by_role("button", name="Reset").click()
    says(page)
    page.wait_for_url("**#demo-full.selected=weights")
    page.locator("#mm-demo-full").get_by_role("button", name="Reset").click()
    page.wait_for_url(lambda address: "#" not in address)
    assert problems == []


@pytest.mark.parametrize(
    "garbage",
    ["#demo.ranks=3", "#demo.ranks=%E0%A4%A", "#demo.nothing=1&&=&demo.=&.=x", "#%", "#demo.ranks"],
)
def test_garbage_in_the_address_is_ignored(url: str, open_page: OpenPage, garbage: str) -> None:
    page, problems = open_page(url + garbage)
    ready(page)
    says(page)
    assert problems == []


def test_headings_keep_their_addresses(url: str, open_page: OpenPage) -> None:
    page, problems = open_page(f"{url}#more")
    ready(page)
    page.wait_for_timeout(300)
    assert page.url.endswith("#more")
    page.evaluate("location.hash = '#demo.ranks=2'")
    says(page, ranks="2")
    page.evaluate("location.hash = '#top'")
    page.wait_for_timeout(100)
    says(page, ranks="2")  # going to a heading is no change of the figure
    assert problems == []


def test_what_is_turned_before_the_runtime_is_there_is_not_lost(url: str, browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        problems = watch(page)
        held: list[Route] = []
        page.route("**/memmodel.js*", lambda route: held.append(route))  # noqa: PLW0108
        page.goto(url)
        demo = page.locator("#mm-demo")
        for _ in range(3):
            demo.get_by_role("button", name="Ranks: halve").click()
        demo.get_by_label("everything").check()
        page.wait_for_timeout(200)
        assert status(page).inner_text() == FIGURE.scene().status
        assert page.locator("#mm-demo select").input_value() == "1"
        held[0].continue_()
        says(page, policy="full", ranks="1")
        assert page.locator("#mm-demo").get_attribute("data-drawn") == "1"
        assert problems == []


def test_a_burst_of_changes_is_drawn_once_and_says_one_sentence(
    url: str, open_page: OpenPage
) -> None:
    page, problems = open_page(url)
    ready(page)
    page.evaluate(
        """() => {
            window.said = [];
            new MutationObserver((changes) => window.said.push(changes.length)).observe(
                document.querySelector('#mm-demo .mm-status'), {childList: true});
            const plus = document.querySelector('#mm-demo [data-step="-1"]');
            plus.click(); plus.click(); plus.click();
        }"""
    )
    says(page, ranks="1")
    assert page.evaluate("window.said.length") == 1
    assert page.locator("#mm-demo").get_attribute("data-drawn") == "1"
    assert problems == []


def test_the_keyboard_does_all_and_keeps_its_place(url: str, open_page: OpenPage) -> None:
    page, problems = open_page(url)
    ready(page)
    page.locator("#mm-demo-pick-gradients").focus()
    page.keyboard.press("Enter")
    says(page, selected="gradients")
    focused = "document.activeElement.id"
    assert page.evaluate(focused) == "mm-demo-pick-gradients"
    assert page.locator("#mm-demo-pick-gradients").get_attribute("aria-pressed") == "true"
    page.keyboard.press("Tab")
    page.keyboard.press(" ")
    says(page, selected="optimizer")
    assert page.evaluate(focused) == "mm-demo-pick-optimizer"
    page.locator("#mm-demo select").focus()
    page.keyboard.press("ArrowDown")
    says(page, selected="optimizer", ranks="16")
    assert page.evaluate(focused) == "mm-demo-ranks"
    page.locator("#mm-demo input[type=radio]:checked").focus()
    page.keyboard.press("ArrowRight")
    says(page, selected="optimizer", ranks="16", policy="full")
    assert page.evaluate("scrollX") == 0
    assert problems == []


def test_a_hint_opens_on_focus_and_closes_on_escape(url: str, open_page: OpenPage) -> None:
    page, _ = open_page(url, width=360)
    hint = page.locator("#mm-demo").get_by_role("button", name="About Ranks")
    tip = page.locator("#mm-demo-ranks-hint")
    assert not tip.is_visible()
    hint.focus()
    assert tip.is_visible()
    assert hint.get_attribute("aria-describedby") == "mm-demo-ranks-hint"
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    hint.blur()
    hint.hover()
    assert tip.is_visible()
    tip.hover()
    assert tip.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("broken", ["runtime.js", "memmodel.js"])
def test_if_the_runtime_cannot_start_a_line_says_why(
    url: str, browser: Browser, broken: str
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.route(f"**/{broken}*", lambda route: route.abort())
        page.goto(f"{url}#demo.ranks=2")
        line = page.locator("#mm-demo p.mm-off")
        line.wait_for()
        assert f"the file {broken} did not load" in line.inner_text()
        assert status(page).inner_text() == FIGURE.scene().status
        assert page.locator("#mm-demo select").is_disabled()
        assert page.locator("#mm-demo select").input_value() == "8"
        # neither a mark nor an address moves the controls away from the picture that stays
        page.locator("#mm-demo-pick-weights").click()
        page.evaluate("location.hash = '#demo.ranks=4&demo.policy=full'")
        page.wait_for_timeout(300)
        assert page.locator("#mm-demo select").input_value() == "8"
        assert page.locator("#mm-demo").get_by_label("everything").is_checked() is False
        assert page.url.endswith("#demo.ranks=4&demo.policy=full")
        assert page.locator("#mm-demo p.mm-off").count() == 1


@pytest.mark.parametrize("damaged", ["runtime.js", "memmodel.js"])
@pytest.mark.parametrize("how", ["torn", "wrong"])
def test_a_damaged_runtime_is_named(
    folder: Path, url: str, browser: Browser, damaged: str, how: str
) -> None:
    text = (folder / "live" / damaged).read_text()
    middle = text.find("memmodelRuntime.library = ") + 5000  # of the one that has it, or 4999
    torn = text[:middle] if how == "torn" else text[:middle] + "0" * 99 + text[middle + 99 :]
    with browser.new_context() as context:
        page = context.new_page()
        page.route(f"**/{damaged}*", lambda route: route.fulfill(body=torn))
        page.goto(url)
        line = page.locator("#mm-demo p.mm-off")
        line.wait_for()
        assert f"the file {damaged} is damaged" in line.inner_text()
        assert status(page).inner_text() == FIGURE.scene().status


def test_a_browser_without_webassembly_keeps_the_first_picture(url: str, browser: Browser) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.add_init_script("delete globalThis.WebAssembly")
        page.goto(url)
        page.locator("#mm-demo p.mm-off").wait_for()
        assert status(page).inner_text() == FIGURE.scene().status


@pytest.mark.parametrize("way", ["connection", "media"])
def test_who_saves_data_loads_the_runtime_at_the_first_touch(
    url: str, browser: Browser, way: str
) -> None:
    asks = {
        "connection": "Object.defineProperty(navigator, 'connection', {value: {saveData: true}})",
        "media": "const real = matchMedia; matchMedia = (query) => "
        "query.includes('reduced-data') ? {matches: true} : real.call(window, query)",
    }
    with browser.new_context() as context:
        page = context.new_page()
        loaded: list[str] = []
        page.on("request", lambda request: loaded.append(request.url))
        page.add_init_script(asks[way])
        page.goto(url, wait_until="networkidle")
        page.wait_for_timeout(500)
        assert not any("runtime.js" in address for address in loaded)
        page.locator("#mm-demo").get_by_role("button", name="Ranks: halve").click()
        says(page, ranks="4")
        assert any("runtime.js" in address for address in loaded)


@pytest.mark.parametrize("width", [360, 320])
def test_a_phone_scrolls_the_picture_and_never_the_page(
    url: str, open_page: OpenPage, width: int
) -> None:
    page, problems = open_page(url, width=width)
    ready(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    smallest = page.evaluate(
        """Math.min(...[...document.querySelectorAll('.mm-svg text')].map((text) =>
            parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""
    )
    assert smallest >= 12
    box = page.locator("#mm-demo .mm-picture")
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth && box.tabIndex === 0")
    assert box.get_attribute("aria-label") == "Picture: Four bars and a limit"
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function("document.querySelector('#mm-demo .mm-picture').tabIndex === -1")
    assert problems == []


def colour(page: Page, selector: str, what: str = "fill") -> Any:
    return page.evaluate(
        "([selector, what]) => getComputedStyle(document.querySelector(selector))[what]",
        [selector, what],
    )


def rgb(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_themes_set_the_palette(url: str, open_page: OpenPage, theme: str) -> None:
    page, _ = open_page(url)
    page.evaluate("(theme) => document.documentElement.dataset.theme = theme", theme)
    at = ("light", "dark").index(theme)
    assert colour(page, "#mm-demo-bar-weights") == rgb(PALETTE["weights"][at])
    assert colour(page, "#mm-demo-title") == rgb(PALETTE["text"][at])
    assert colour(page, "#mm-demo-limit", "stroke") == rgb(PALETTE["limit"][at])
    assert colour(page, "#mm-demo", "background-color") == rgb(PALETTE["ground"][at])


def test_a_guess_is_kept_beside_the_answer(url: str, open_page: OpenPage) -> None:
    page, problems = open_page(url)
    entry = page.get_by_label("How much is all of it? TiB")
    gap = page.locator(".mm-gap")
    entry.fill("a lot")
    page.get_by_role("button", name="Commit").click()
    assert gap.inner_text() == "A number, please."
    entry.fill("17,3")
    entry.press("Enter")
    assert gap.inner_text() == (
        "You said 17,3; it is 8.65 TiB: all four bars. Your guess is 2.0 times too high."
    )
    assert not entry.is_editable()
    assert problems == []
