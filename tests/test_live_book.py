"""Every live figure of the built book: each control moves it, to what the package says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from memmodel.figures import get
from memmodel.render_html import free_knobs
from memmodel.scene import Hidden

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
