"""What a reader in JupyterLab does and sees, driven through the values of the controls."""

from __future__ import annotations

import base64
import itertools
import json
from dataclasses import replace
from typing import Any

import ipywidgets
import pytest
from demo_figure import FIGURE
from geometry import states

from memmodel.render_html import figure_html, figure_text, guess_html
from memmodel.render_matplotlib import compact, png
from memmodel.scene import Choice, Figure, Group, Hidden, Rect, Scene, Table
from memmodel.widgets import Explorer, Picture, explore, guess

VIEW = "application/vnd.jupyter.widget-view+json"


def put(shown: Explorer, name: str, value: str) -> None:
    """Turn one knob as a reader would."""
    control = shown.controls[name]
    control.value = value == "on" if isinstance(control, ipywidgets.Checkbox) else value


def shows(shown: Explorer, scene: Scene) -> bool:
    """Whether picture, words and table are those of `scene`."""
    return (
        shown.image.value == png(scene)
        and shown.image.tooltip == scene.alt
        and scene.status in shown.status.value
        and (
            not shown.table_button.value
            or all(f">{cell}<" in shown.table.value for row in scene.table.rows for cell in row)
        )
    )


def count_redraws(monkeypatch: pytest.MonkeyPatch) -> list[Scene]:
    """Return the list of scenes drawn from now on; it fills as they are drawn."""
    drawn: list[Scene] = []

    def counted(scene: Scene, scale: float) -> bytes:
        drawn.append(scene)
        return png(scene, scale)

    monkeypatch.setattr("memmodel.widgets.png", counted)
    return drawn


def everything_in(widget: Any) -> list[Any]:
    return [widget, *itertools.chain(*map(everything_in, getattr(widget, "children", ())))]


def test_the_first_picture_is_the_figure_s() -> None:
    shown = explore(FIGURE)
    assert shown.state == FIGURE.defaults()
    assert shows(shown, FIGURE.scene())


def test_each_kind_of_knob_has_its_control() -> None:
    controls = explore(FIGURE).controls
    kinds = {name: type(control).__name__ for name, control in controls.items()}
    assert kinds == {
        "policy": "ToggleButtons",
        "ranks": "Dropdown",
        "ghost": "Checkbox",
        "selected": "Dropdown",
    }


def test_many_or_long_options_become_a_list() -> None:
    options = tuple((f"{i}", f"the option number {i}") for i in range(6))
    figure = Figure("long", "Long", (Choice("a", "A", options, "0"),), lambda **_: FIGURE.scene())
    assert isinstance(explore(figure).controls["a"], ipywidgets.Dropdown)


def test_every_control_has_a_label_and_its_hint() -> None:
    shown = explore(FIGURE)
    for knob in FIGURE.knobs:
        control = shown.controls[knob.name]
        assert control.description == knob.label
        assert control.style.description_width == "initial"
        assert (control.tooltip or "") == getattr(knob, "hint", "")
    assert shown.reset_button.description


def test_every_value_of_every_knob_can_be_chosen() -> None:
    shown = explore(FIGURE)
    for knob in FIGURE.knobs:
        for value in knob.values():
            put(shown, knob.name, value)
            assert shown.state[knob.name] == value


def test_every_change_redraws_picture_alt_text_status_and_table() -> None:
    shown = explore(FIGURE)
    shown.table_button.value = True
    before = (shown.image.value, shown.image.tooltip, shown.status.value, shown.table.value)
    put(shown, "ranks", "32")
    after = (shown.image.value, shown.image.tooltip, shown.status.value, shown.table.value)
    assert all(old != new for old, new in zip(before, after, strict=True))
    assert "32 GiB" in shown.image.tooltip  # 1024 GiB of weights over 32 ranks


@pytest.mark.slow
def test_every_state_of_the_demo_is_shown_as_its_scene() -> None:
    shown = explore(FIGURE)
    shown.table_button.value = True
    for state in states(FIGURE, 40):
        for name, value in state.items():
            put(shown, name, value)
        assert shows(shown, FIGURE.scene(**state)), state


def test_steps_halve_and_double_and_stop_at_the_ends() -> None:
    shown = explore(FIGURE)
    halve, double = (
        widget
        for widget in everything_in(shown.box)
        if isinstance(widget, ipywidgets.Button) and (widget.tooltip or "").startswith("Ranks: ")
    )
    double.click()
    assert shows(shown, FIGURE.scene(ranks="16"))
    put(shown, "ranks", "2")
    assert not halve.disabled
    halve.click()
    assert shows(shown, FIGURE.scene(ranks="1"))
    assert halve.disabled
    put(shown, "ranks", "64")
    assert double.disabled


def test_the_table_is_there_when_asked_for() -> None:
    shown = explore(FIGURE)
    assert shown.table.layout.display == "none"
    shown.table_button.value = True
    assert shown.table.layout.display != "none"
    assert shown.table.value.count("<tr>") == 1 + len(FIGURE.scene().table.rows)
    put(shown, "ranks", "1")
    assert ">4096<" in shown.table.value


def test_a_picture_can_have_a_tooltip_on_the_page() -> None:
    assert explore(FIGURE).image.get_state()["description"] == ""


def lamps(policy: str, marks: str) -> Scene:
    """Draw three lamps; a click turns one, and "all" is recognised when all of them are on."""
    bits = {"none": "000", "all": "111"}.get(policy, marks)
    lit = [
        Group(
            f"lamp-{at}",
            (Rect(20 + 40 * at, 20, 30, 30, "good" if bit == "1" else "neutral"),),
            knob="policy",
            value="custom",
            label=f"Lamp {at}: turn {'off' if bit == '1' else 'on'}",
            also=(("marks", bits[:at] + "10"[int(bit)] + bits[at + 1 :]),),
        )
        for at, bit in enumerate(bits)
    ]
    named = {"000": "none", "111": "all"}.get(bits, "custom")
    rows = (("lamps", bits),)
    resolved = {"policy": named, "marks": bits}
    return Scene(200, 100, tuple(lit), bits, bits, Table(("a", "b"), rows), resolved=resolved)


LAMPS = Figure(
    "lamps",
    "Three lamps",
    (
        Choice(
            "policy", "Policy", (("none", "none"), ("all", "all"), ("custom", "custom")), "none"
        ),
        Hidden("marks", "Lamps", ("000", "111"), "000", pattern="[01]{3}"),
    ),
    lamps,
)


def test_what_can_be_clicked_is_in_a_list_and_clicks_set_all_they_set() -> None:
    shown = explore(LAMPS)
    assert set(shown.controls) == {"policy"}
    assert [label for label, _ in shown.marks.options] == [f"Lamp {i}: turn on" for i in range(3)]
    shown.marks.value = "lamp-1"
    shown.click.click()
    assert shown.state == {"policy": "custom", "marks": "010"}
    assert shown.controls["policy"].value == "custom"
    assert shown.marks.value == "lamp-1"  # the same lamp, ready to be turned off
    assert shown.marks.label == "Lamp 1: turn off"
    shown.click.click()
    assert shown.controls["policy"].value == "none"  # the preset recognises itself


def test_a_preset_is_recognised_without_another_redraw(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = explore(LAMPS)
    drawn = count_redraws(monkeypatch)
    for lamp in ("lamp-0", "lamp-1", "lamp-2"):
        shown.marks.value = lamp
        shown.click.click()
    assert len(drawn) == 3
    assert shown.controls["policy"].value == "all"
    put(shown, "policy", "none")
    assert len(drawn) == 4
    assert shown.state["marks"] == "000"


def test_a_mark_whose_knob_is_fixed_cannot_be_clicked() -> None:
    shown = explore(LAMPS, policy="all")
    shown.click.click()
    assert shown.state == {"policy": "all", "marks": "111"}
    assert shown.marks.options == (("", ""),)


def doors(chosen: str) -> Scene:
    """Draw three doors; a click opens one, and lights the lamp of its number elsewhere."""
    marks = [
        Group(
            f"door-{at}",
            (Rect(20 + 40 * at, 20, 30, 30, "good" if str(at) == chosen else "neutral"),),
            knob="chosen",
            value=str(at),
            label=f"Door {at}",
            into="lamps",
            loads=(("policy", "custom"), ("marks", "000"[:at] + "1" + "000"[at + 1 :])),
        )
        for at in range(3)
    ]
    words = f"Door {chosen or 'none'}."
    return Scene(200, 100, tuple(marks), words, words, Table(("a", "b"), (("door", chosen),)))


DOORS = Figure("doors", "Three doors", (Hidden("chosen", "Door", ("", "0", "1", "2")),), doors)


def test_a_click_also_loads_what_it_loads_into_the_linked_figure() -> None:
    other = explore(LAMPS)
    shown = explore(DOORS, linked=other)
    put(shown, "chosen", "1")  # the list does what a click on the door does
    assert shown.state == {"chosen": "1"}
    assert other.state == {"policy": "custom", "marks": "010"}
    assert other.controls["policy"].value == "custom"
    assert shows(other, LAMPS.scene(policy="custom", marks="010"))
    assert "Door 1. “Three lamps” shows it." in shown.status.value
    put(shown, "chosen", "")
    assert "Door none.<" in shown.status.value
    assert other.state == {"policy": "custom", "marks": "010"}
    page = shown._repr_mimebundle_()[0]["text/html"]
    assert 'data-links="{&quot;lamps&quot;:&quot;lamps&quot;}"' in page
    assert 'aria-label="Door 2; shows it in “Three lamps”"' in page


def test_without_a_linked_figure_a_click_loads_nothing_and_says_nothing_of_it() -> None:
    shown = explore(DOORS)
    put(shown, "chosen", "1")
    assert shown.state == {"chosen": "1"}
    assert "Door 1.<" in shown.status.value
    page = shown._repr_mimebundle_()[0]["text/html"]
    assert "lamps" not in page


def test_an_impossible_combination_is_a_sentence_and_can_be_left() -> None:
    shown = explore(FIGURE, policy="impossible")
    put(shown, "ranks", "64")
    assert shown.scene.problem
    assert "No such plan" in shown.status.value
    assert shows(shown, FIGURE.scene(policy="impossible", ranks="64"))
    put(shown, "ranks", "4")
    assert not shown.scene.problem


def test_reset_goes_back_with_one_redraw(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = explore(FIGURE)
    for name, value in {"ranks": "2", "ghost": "off", "selected": "weights"}.items():
        put(shown, name, value)
    drawn = count_redraws(monkeypatch)
    shown.reset_button.click()
    assert len(drawn) == 1
    assert shown.state == FIGURE.defaults()
    assert shows(shown, FIGURE.scene())
    put(shown, "ranks", "2")  # the controls still work
    assert shows(shown, FIGURE.scene(ranks="2"))


def test_large_pictures_are_drawn_a_little_coarser() -> None:
    def draw(**_: str) -> Scene:
        return replace(FIGURE.scene(), width=1000, height=500)

    shown = explore(Figure("large", "Large", (), draw))
    assert shown.image.value == png(draw(), 1.5)
    assert shown.image.layout.width == "1000px"


def test_fixed_knobs_keep_their_value_and_have_no_control() -> None:
    shown = explore(FIGURE, ranks="4", ghost="off")
    assert set(shown.controls) == {"policy", "selected"}
    assert shows(shown, FIGURE.scene(ranks="4", ghost="off"))
    put(shown, "policy", "full")
    shown.reset_button.click()
    assert shown.state == FIGURE.defaults() | {"ranks": "4", "ghost": "off"}


def test_a_figure_with_all_knobs_fixed_has_no_controls() -> None:
    everything: dict[str, Any] = FIGURE.defaults()
    shown = explore(FIGURE, **everything)
    assert not shown.controls
    assert shown.reset_button not in everything_in(shown.box)


@pytest.mark.parametrize("fixed", [{"ranks": "3"}, {"colour": "red"}])
def test_a_wrong_name_or_value_in_the_call_is_an_error(fixed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fixed))):
        explore(FIGURE, **fixed)


def test_two_explorers_of_one_figure_do_not_disturb_each_other() -> None:
    one, other = explore(FIGURE), explore(FIGURE)
    put(one, "ranks", "64")
    assert shows(other, FIGURE.scene())


def test_no_output_widgets_since_they_would_leak_into_the_outputs() -> None:
    kinds = {type(widget) for widget in everything_in(explore(FIGURE).box)}
    assert ipywidgets.Output not in kinds
    assert Picture in kinds


def test_one_output_carries_four_formats() -> None:
    shown = explore(FIGURE, ranks="4")
    data, metadata = shown._repr_mimebundle_(include=None, exclude=None)
    assert set(data) == {VIEW, "text/html", "image/png", "text/plain"}
    assert data[VIEW]["model_id"] == shown.box.model_id
    assert data["text/html"] == figure_html(FIGURE, fixed={"ranks": "4"})
    assert data["text/plain"] == figure_text(FIGURE, fixed={"ranks": "4"})
    assert base64.b64decode(data["image/png"]) == compact(png(FIGURE.scene(ranks="4")))
    assert metadata["image/png"] == {"width": 640, "height": 300}
    json.dumps([data, metadata])  # it fits into a notebook


def test_the_output_is_the_same_twice_but_for_the_view() -> None:
    first, second = (explore(FIGURE)._repr_mimebundle_()[0] for _ in range(2))
    assert first.pop(VIEW) != second.pop(VIEW)
    assert first == second
    assert " at 0x" not in first["text/plain"] + first["text/html"]


def test_words_are_escaped() -> None:
    def draw(**_: str) -> Scene:
        return replace(FIGURE.scene(), alt="a < b", status="a < b & c")

    one = Choice("a", "A", (("0", "x"),), "0")
    shown = explore(Figure("signs", "a < b & c", (one,), draw, "<script>"))
    shown.table_button.value = True
    texts = [w.value for w in everything_in(shown.box) if type(w) is ipywidgets.HTML]
    assert any("a &lt; b &amp; c" in text for text in texts)
    assert not any("<script>" in text or "a < b" in text for text in texts)


def test_a_guess_is_set_against_the_answer() -> None:
    asked = guess("How much is it?", answer=8.6539, unit="TiB", label="naive and global")
    assert "8.65" not in "".join(w.value for w in everything_in(asked.box) if has_words(w))
    asked.field.value = 2
    asked.commit.click()
    assert "8.65 TiB: naive and global." in asked.gap.value
    assert "Your 2 is below it by a factor of 4.33." in asked.gap.value
    asked.field.value = 0  # no guess, and the answer all the same
    asked.commit.click()
    assert "Your" not in asked.gap.value


def has_words(widget: Any) -> bool:
    return isinstance(widget, ipywidgets.HTML)


def test_a_guess_is_on_the_page_too_and_its_text_keeps_the_answer_back() -> None:
    data = guess("How much?", answer=8.6539, unit="TiB", label="all")._repr_mimebundle_()
    assert set(data) == {VIEW, "text/html", "text/plain"}
    assert data["text/html"] == guess_html("How much?", 8.6539, "TiB", "all")
    assert data["text/plain"] == "How much? (TiB)"
