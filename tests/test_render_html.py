"""The static block of a figure: complete before any script runs."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from demo_figure import FIGURE

from memmodel.render_html import figure_html, figure_text, guess_html, table_html
from memmodel.render_svg import svg
from memmodel.scene import Choice, Figure, Powers, Scene, Table, Text

VOID = {"input", "br"}


class Reader(HTMLParser):
    """Elements as (tag, attributes), and whether tags are balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str, **having: str) -> list[dict[str, str]]:
        return [a for t, a in self.elements if t == tag and having.items() <= a.items()]


def test_the_block_holds_picture_words_and_table() -> None:
    html = figure_html(FIGURE)
    scene = FIGURE.scene()
    for part in (
        FIGURE.title,
        svg(scene, uid="mm-demo", title=FIGURE.title, knobs=FIGURE.defaults()),
        f">{scene.status}</p>",
        FIGURE.caption,
        table_html(scene.table, FIGURE.title),
        "<noscript>",
    ):
        assert part in html
    page = Reader(html)
    assert page.all("p", role="status", **{"aria-live": "polite"})
    assert page.all("details")


def test_every_control_has_a_label_and_starts_disabled() -> None:
    page = Reader(figure_html(FIGURE))
    assert "disabled" in page.all("fieldset")[0]
    assert "disabled" in page.all("button", type="reset")[0]
    labelled = {a["for"] for a in page.all("label") if "for" in a}
    named = [*page.all("select"), *page.all("input", type="checkbox")]
    assert named
    assert all(control["id"] in labelled for control in named)
    group = page.all("span", role="radiogroup")[0]
    assert page.all("span", id=group["aria-labelledby"])
    steps = page.all("button", type="button")
    assert all("aria-label" in button for button in steps)
    assert [a["data-step"] for a in steps if "data-step" in a] == ["-1", "1"]


def test_controls_show_the_defaults() -> None:
    page = Reader(figure_html(FIGURE))
    assert [a["value"] for a in page.all("input", type="radio") if "checked" in a] == ["none"]
    assert [a["value"] for a in page.all("option") if "selected" in a] == ["8"]
    assert "checked" in page.all("input", type="checkbox")[0]
    root = page.all("figure")[0]
    assert json.loads(root["data-defaults"]) == FIGURE.defaults()


def test_ids_are_unique_also_for_two_figures_of_one_page() -> None:
    page = Reader(
        figure_html(FIGURE)
        + figure_html(FIGURE, fixed={"policy": "full"})
        + figure_html(FIGURE, key="again")
    )
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for name in ("for", "aria-labelledby", "aria-describedby", "form"):
            assert attributes.get(name, ids[0]) in ids


def test_fixed_knobs_have_no_control_and_set_no_state() -> None:
    fixed = {"policy": "full", "selected": "weights"}
    html = figure_html(FIGURE, fixed=fixed)
    page = Reader(html)
    assert not page.all("input", type="radio")
    assert 'data-knob="selected"' not in html
    root = page.all("figure")[0]
    assert json.loads(root["data-defaults"]) == {"ranks": "8", "ghost": "on"}
    assert json.loads(root["data-fixed"]) == fixed
    assert FIGURE.scene(**fixed).status in html


def test_a_figure_without_free_knobs_is_a_picture() -> None:
    page = Reader(figure_html(FIGURE, fixed=FIGURE.defaults()))
    assert not page.all("form")
    assert not page.all("button")
    assert "data-figure" not in page.all("figure")[0]
    assert page.all("svg", role="img")


def test_wrong_knobs_and_values_are_refused() -> None:
    with pytest.raises(ValueError, match="ranks = '3', not one of 1, 2"):
        figure_html(FIGURE, fixed={"ranks": "3"})
    with pytest.raises(ValueError, match="no knob 'size'"):
        figure_html(FIGURE, fixed={"size": "3"})


def test_long_lists_become_a_select_and_all_text_is_escaped() -> None:
    nasty = "<b>&\"'"

    def draw(pick: str, n: str) -> Scene:
        return Scene(90, 40, (Text(1, 20, pick + n),), nasty, nasty, Table((nasty,), ((nasty,),)))

    options = tuple((f"v{i}", f"{nasty} and many words {i}") for i in range(4))
    knobs = (Choice("pick", nasty, options, "v1", nasty), Powers("n", nasty, 1, 8, "2", nasty))
    html = figure_html(Figure("x", nasty, knobs, draw, nasty))
    page = Reader(html)
    assert not re.search("<b>", html)
    assert len(page.all("select")) == 2
    assert [a["value"] for a in page.all("option") if "selected" in a] == ["v1", "2"]
    assert page.all("button", **{"aria-label": f"{nasty}: halve"})


def test_the_text_form_is_stable_and_complete() -> None:
    assert figure_text(FIGURE, fixed={"policy": "full"}) == figure_text(
        FIGURE, fixed={"policy": "full"}
    )
    assert figure_text(FIGURE) == (
        "Four bars and a limit\n"
        "Four bars of weights 128 GiB, gradients 256 GiB, optimizer 512 GiB, activations 512 GiB.\n"
        "Total 1408 GiB.\n"
        "Invented sizes in GiB; states divide by the ranks.\n"
        "\n"
        "category     GiB\n"
        "weights      128\n"
        "gradients    256\n"
        "optimizer    512\n"
        "activations  512\n"
        "total        1408"
    )


def test_a_guess_has_its_answer_in_a_fold() -> None:
    html = guess_html("How <much>?", 1234.567, "GiB", "of & all")
    page = Reader(html)
    assert "hidden" in page.all("form")[0]
    assert page.all("div", **{"data-answer": "1234.567", "data-unit": "GiB"})
    assert "<p>1,234.57 GiB: of &amp; all.</p>" in html
    assert "How &lt;much&gt;?" in html
    assert "<p>80 GiB" in guess_html("?", 80, "GiB", "x")
