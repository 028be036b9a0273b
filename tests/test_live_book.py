"""Every live figure of the built book: each control moves it, to what the package says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from geometry import by_id
from playwright.sync_api import Browser, Page, expect

from memmodel.figures import get
from memmodel.render_html import free_knobs
from memmodel.scene import Group, Hidden

pytestmark = [pytest.mark.slow, pytest.mark.browser]

OpenPage = Callable[..., tuple[Page, list[str]]]

# Asks a figure of the page for a state as its address would, and waits for the words of it.
TURN = """async ([key, change, status, alt]) => {
    const root = document.querySelector(`[data-key="${key}"]`);
    const [knob, value] = change;
    const controls = [...root.querySelector(".mm-form").elements].filter((c) => c.name === knob);
    const option = controls.find((c) => c.type === "radio" && c.value === value);
    const control = option ?? controls[0];
    if (option) option.checked = true;
    else if (control.type === "checkbox") control.checked = value === "on";
    else control.value = value;
    control.dispatchEvent(new Event("input", { bubbles: true }));
    for (let wait = 0; wait < 400; wait++) {
        await new Promise((done) => setTimeout(done, 25));
        const now = [root.querySelector(".mm-status"), root.querySelector(".mm-svg > desc")];
        if (now[0].textContent === status && now[1].textContent === alt) return "";
        if (root.dataset.live === "failed") return root.querySelector("p.mm-off").textContent;
    }
    return `${key} ${change}: ${root.querySelector(".mm-status").textContent}`;
}"""


def live_pages(book: Path) -> list[str]:
    pages = sorted(book.glob("book/*.html"))
    return [p.name for p in pages if 'class="mm-figure"' in p.read_text(encoding="utf-8")]


@pytest.mark.parametrize("from_disk", [False, True], ids=["http", "file"])
def test_each_control_of_each_figure_moves_it(
    book: Path, site: str, open_page: OpenPage, from_disk: bool, subtests: pytest.Subtests
) -> None:
    assert live_pages(book)
    for name in live_pages(book):
        page, problems = open_page(
            (book / "book" / name).as_uri() if from_disk else f"{site}/book/{name}"
        )
        page.wait_for_function(
            "[...document.querySelectorAll('[data-key]')].every((f) => f.dataset.live === 'ready')",
            timeout=60_000,
        )
        roots = page.evaluate(
            "[...document.querySelectorAll('[data-key]')].map(({dataset}) => ({...dataset}))"
        )
        for root in roots:
            figure, fixed = get(root["figure"]), json.loads(root["fixed"])
            state = figure.defaults() | fixed
            for knob in free_knobs(figure, fixed):
                if isinstance(knob, Hidden):
                    continue
                values = [value for value in knob.values() if value != state[knob.name]]
                for value in values[:2] if from_disk else values:
                    state[knob.name] = value
                    scene = figure.scene(**state)
                    state |= {k: v for k, v in scene.resolved.items() if k not in fixed}
                    asked = [root["key"], [knob.name, value], scene.status, scene.alt]
                    with subtests.test(page=name, figure=root["key"], knob=knob.name, value=value):
                        assert page.evaluate(TURN, asked) == ""
        with subtests.test("quietly", page=name):
            assert problems == []
        page.context.close()


def test_figures_that_are_linked_stand_on_the_same_page(book: Path) -> None:
    links = 0
    for name in live_pages(book):
        html = unescape((book / "book" / name).read_text(encoding="utf-8"))
        for found in re.findall(r'data-links="(\{.*?\})"', html):
            for figure, key in json.loads(found).items():
                assert f'data-figure="{figure}" data-key="{key}"' in html
                links += 1
    assert links


@pytest.mark.parametrize("from_disk", [False, True], ids=["http", "file"])
def test_a_step_of_the_frontier_is_loaded_into_the_diagram(
    book: Path, site: str, open_page: OpenPage, from_disk: bool
) -> None:
    name = "book/04-recompute-what-is-cheap.html"
    page, problems = open_page((book / name).as_uri() if from_disk else f"{site}/{name}")
    ready = "[...document.querySelectorAll('[data-key]')].every((f) => f.dataset.live === 'ready')"
    page.wait_for_function(ready, timeout=60_000)
    frontier, diagram = page.locator("#mm-frontier"), page.locator("#mm-recompute-diagram")

    def says(selected: str, note: str, **state: str) -> None:
        chosen = get("frontier").scene(selected=selected)
        shown = get("recompute-diagram").scene(**state)
        expect(frontier.locator(".mm-status")).to_have_text(chosen.status + note)
        expect(diagram.locator(".mm-status")).to_have_text(shown.status)
        expect(diagram.locator(".mm-svg > desc")).to_have_text(shown.alt)
        cells = diagram.locator(".mm-table tbody td").all_text_contents()
        assert cells == [cell for row in shown.table.rows for cell in row[1:]]

    def loaded(step: int) -> dict[str, str]:
        mark = by_id(get("frontier").scene(), f"step-{step}")
        assert isinstance(mark, Group)
        return dict(mark.loads)

    note = " “Save or recompute” shows it."
    diagram.get_by_label("dense").check()
    buttons = frontier.get_by_role("button", name="shows it in “Save or recompute”")
    assert buttons.count() == 12
    buttons.nth(4).click()
    says("5", note, **loaded(5))
    expect(diagram.locator("[name=policy]:checked")).to_have_value("custom")
    page.wait_for_url("**#recompute-diagram.policy=custom&*&frontier.selected=5")
    page.keyboard.press("Tab")  # the focus stayed on step 5
    page.keyboard.press("Enter")
    says("6", note, **loaded(6))
    buttons.first.focus()
    page.keyboard.press(" ")
    says("1", note, **loaded(1))
    expect(diagram.locator("[name=policy]:checked")).to_have_value("none")  # recognises itself
    frontier.get_by_role("button", name="Step 1: ").click()  # leaves it, loads nothing
    says("", "", **loaded(1))
    buttons.nth(9).click()
    says("10", note, **loaded(10))
    page.wait_for_url("**&frontier.selected=10")
    page.reload()
    page.wait_for_function(ready, timeout=60_000)
    says("10", "", **loaded(10))
    assert problems == []


def test_first_pictures_are_there_without_javascript(
    book: Path, site: str, open_page: OpenPage, subtests: pytest.Subtests
) -> None:
    for name in live_pages(book):
        page, problems = open_page(f"{site}/book/{name}", java_script_enabled=False)
        for root in page.locator(".mm-figure").all():
            title = root.locator(".mm-name").inner_text()
            with subtests.test(page=name, figure=title):
                assert root.locator(".mm-svg").is_visible()
                assert root.locator(".mm-status").inner_text()
                assert root.locator(".mm-table tbody tr").count() > 0
        assert problems == []
        page.context.close()


def test_without_the_script_a_line_says_so(book: Path, site: str, browser: Browser) -> None:
    name = live_pages(book)[0]
    with browser.new_context() as context:
        page = context.new_page()
        page.route("**/live.js*", lambda route: route.abort())
        page.goto(f"{site}/book/{name}")
        lines = page.locator(".mm-figure > p.mm-off")
        lines.first.wait_for()
        assert lines.count() == page.locator(".mm-form").count()
        assert "the file live.js did not load" in lines.first.inner_text()
        assert page.locator(".mm-form input").first.is_disabled()
