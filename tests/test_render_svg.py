"""A scene as SVG text, read back as XML."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from demo_figure import FIGURE
from geometry import bar_width, states

from memmodel import render_matplotlib, render_svg
from memmodel.render_svg import least_width, number, palette_css, svg
from memmodel.scene import PALETTE, Group, Path, Rect, Scene, Table, Text

NS = "{http://www.w3.org/2000/svg}"


def picture(scene: Scene, knobs: tuple[str, ...] = ("selected",)) -> ET.Element:
    return ET.fromstring(svg(scene, uid="u", title="Title", knobs=knobs))


def only(*marks: Rect | Text | Path | Group) -> Scene:
    return Scene(100, 50, marks, "words", "status", Table(("a",), (("1",),)))


def find(root: ET.Element, id: str) -> ET.Element:  # noqa: A002
    return next(element for element in root.iter() if element.get("id") == f"u-{id}")


def test_every_state_of_the_demo_is_well_formed_and_has_unique_ids() -> None:
    for state in states(FIGURE):
        root = picture(FIGURE.scene(**state))
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert len(ids) == len(set(ids))
        assert root.get("viewBox") == "0 0 640 300"


def test_bars_are_as_wide_as_the_scene_says() -> None:
    scene = FIGURE.scene(ranks="2")
    for name in ("weights", "gradients", "optimizer", "activations"):
        width = find(picture(scene), f"bar-{name}").get("width")
        assert width == number(bar_width(scene, f"bar-{name}"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (-0.004, "0"),
        (100, "100"),
        (0.125, "0.12"),
        (1 / 3, "0.33"),
        (-2.5, "-2.5"),
        (1e7, "10000000"),
    ],
)
def test_numbers_have_one_form(value: float, text: str) -> None:
    assert number(value) == text


def test_no_number_is_longer_than_two_decimals() -> None:
    text = svg(FIGURE.scene(ranks="64"), uid="u", title="", knobs=())
    assert not re.search(r"\d\.\d{3}", text)
    assert not re.search(r"\d[eE][+-]?\d", re.sub(r"<desc.*?</desc>|#[0-9a-f]{6}", "", text))


def test_the_same_scene_gives_the_same_text() -> None:
    one, other = (
        svg(FIGURE.scene(), uid="u", title="T", knobs={"selected", "b", "c"}) for _ in range(2)
    )
    assert one == other


def test_a_picture_with_buttons_is_a_group_and_without_an_image() -> None:
    group, image = picture(FIGURE.scene()), picture(FIGURE.scene(), knobs=())
    assert group.get("role") == "group"
    assert image.get("role") == "img"
    assert not [e for e in image.iter() if e.get("tabindex") or e.get("role") == "button"]
    for root in (group, image):
        assert root.get("aria-label") == "Title"
        assert find(root, "alt").text == FIGURE.scene().alt
        assert root.get("aria-describedby") == "u-alt"


def test_marks_that_set_a_knob_are_buttons() -> None:
    root = picture(FIGURE.scene(selected="weights"))
    button = find(root, "pick-weights")
    assert button.attrib | {"role": "button", "tabindex": "0"} == button.attrib
    assert button.get("aria-label") == "Select weights"
    assert button.get("aria-pressed") == "true"
    assert (button.get("data-knob"), button.get("data-value")) == ("selected", "")
    assert find(root, "pick-gradients").get("aria-pressed") == "false"


def test_a_mark_may_set_several_knobs_but_none_that_is_fixed() -> None:
    mark = Group(
        "g", (Rect(0, 0, 30, 30, "text"),), "a", "1", label="A", also=(("b", "2"), ("c", "3"))
    )
    root = picture(only(mark), knobs=("a", "b"))
    assert find(root, "g").get("data-sets") == '{"a": "1", "b": "2"}'
    assert find(picture(only(mark), knobs=("a",)), "g").get("data-sets") is None
    assert find(picture(only(mark), knobs=("b",)), "g").get("role") is None


def test_the_area_of_a_button_holds_its_marks_and_stays_in_the_frame() -> None:
    for group in picture(FIGURE.scene()).iter(f"{NS}g"):
        if group.get("role") != "button":
            continue
        target = next(e for e in group if e.get("class") == "mm-target")
        left, top, width, high = (float(target.get(k) or 0) for k in ("x", "y", "width", "height"))
        assert min(width, high) >= 24
        assert left >= 0
        assert top >= 0
        assert left + width <= 640
        assert top + high <= 300


def test_texts_are_escaped() -> None:
    nasty = "<b>&\"'</b>"
    scene = replace(only(Text(5, 20, nasty), Rect(1, 1, 9, 9, "text", title=nasty)), alt=nasty)
    root = ET.fromstring(svg(scene, uid="u", title=nasty))
    assert [e.text for e in root.iter(f"{NS}text")] == [nasty]
    assert [e.text for e in root.iter(f"{NS}title")] == [nasty]
    assert find(root, "alt").text == nasty
    assert root.get("aria-label") == nasty


def test_roles_are_classes_with_the_light_colour_to_fall_back_on() -> None:
    bar = find(picture(FIGURE.scene()), "bar-gradients")
    assert bar.get("class") == "f-gradients"
    assert bar.get("fill") == PALETTE["gradients"][0]
    ghost = find(picture(FIGURE.scene()), "ghost-gradients")
    assert ghost.get("class") == "s-ghost"
    assert ghost.get("fill") == "none"
    assert ghost.get("stroke-dasharray") == "4 3"
    css = palette_css()
    for role, pair in PALETTE.items():
        slug = role.replace(" ", "-")
        assert f".f-{slug}{{fill:var(--mm-{slug})}}" in css
        assert f".s-{slug}{{stroke:var(--mm-{slug})}}" in css
        for colour in pair:
            assert f"--mm-{slug}:{colour};" in css


def test_hatches_are_patterns_of_this_picture() -> None:
    root = picture(FIGURE.scene())
    assert find(root, "bar-optimizer").get("fill") == "url(#u-hatch-optimizer)"
    assert find(root, "hatch-optimizer").tag == f"{NS}pattern"
    assert find(picture(only(Rect(0, 0, 9, 9, "weights soft", hatch=True))), "hatch-weights-soft")


def test_faint_marks_and_arrows() -> None:
    root = picture(FIGURE.scene(selected="weights"))
    assert find(root, "bar-gradients").get("opacity") == "0.33"
    assert find(root, "bar-weights").get("opacity") is None
    shaft, head = find(root, "arrow")
    assert shaft.get("d") == "M564 28L600 28L600 42"
    assert head.get("d") == "M600 50L596.5 42L603.5 42Z"


def test_text_never_shrinks_under_twelve_pixels() -> None:
    assert least_width(only(Text(0, 20, "a", size=24))) == 50
    assert least_width(only(Text(0, 20, "a", size=12), Text(0, 40, "b", size=30))) == 100
    assert picture(FIGURE.scene()).get("style") == "min-width:640px;max-width:800px"


def test_both_renderers_draw_with_the_same_lengths() -> None:
    lengths = ("DASH", "OUTLINE", "HATCH_PITCH", "HATCH_WEIGHT", "ARROW_LENGTH", "ARROW_WIDTH")
    for name in (*lengths, "FAINT"):
        assert getattr(render_svg, name) == getattr(render_matplotlib, name)
