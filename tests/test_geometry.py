"""The geometry checks find what they are for: a sound scene passes, each corruption fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log2
from typing import Any

import pytest
from demo_figure import FIGURE, LEFT, LOG2_LIMIT, NAMES, RIGHT, bar_gib
from geometry import bar_width, by_id, check_figure, check_scene, states

from memmodel.scene import Group, Line, Mark, Path, Rect, Scene, Text, refused


def edited(scene: Scene, id: str, **changes: Any) -> Scene:  # noqa: A002
    """Return the scene with fields of one mark changed."""

    def walk(marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
        return tuple(
            replace(mark, **changes)
            if mark.id == id
            else replace(mark, marks=walk(mark.marks))
            if isinstance(mark, Group)
            else mark
            for mark in marks
        )

    return replace(scene, marks=walk(scene.marks))


def with_mark(scene: Scene, *marks: Mark, first: bool = False) -> Scene:
    return replace(scene, marks=marks + scene.marks if first else scene.marks + marks)


def test_every_state_of_the_demo_is_sound() -> None:
    assert check_figure(FIGURE) == 3 * 7 * 2 * 5


@pytest.mark.parametrize("limit", [3, 10, 50, 1000])
def test_a_sample_of_states_has_every_value_of_every_knob(limit: int) -> None:
    sample = states(FIGURE, limit)
    assert FIGURE.defaults() in sample
    assert len(sample) <= limit + 3 + 7 + 2 + 5
    for knob in FIGURE.knobs:
        assert {state[knob.name] for state in sample} == set(knob.values())


def width_is_right(scene: Scene, name: str, ranks: int) -> bool:
    gib = bar_gib(name, policy="none", ranks=ranks)
    return abs(bar_width(scene, f"bar-{name}") - (RIGHT - LEFT) * log2(gib) / LOG2_LIMIT) < 1e-9


def test_bar_widths_are_read_back_and_a_corrupt_one_is_seen() -> None:
    scene = FIGURE.scene(ranks="16")
    assert all(width_is_right(scene, name, 16) for name in NAMES)
    width = bar_width(scene, "bar-weights")
    wrong = edited(scene, "bar-weights", width=width + 1)
    assert not width_is_right(wrong, "weights", 16)


CORRUPTIONS: dict[str, tuple[str, Callable[[Scene], Scene]]] = {
    "two texts": (
        "texts collide",
        lambda s: with_mark(s, Text(20, 30, "Memory again")),
    ),
    "text over a bar's end": (
        "border of a rectangle",
        lambda s: edited(s, "value-weights", x=370),
    ),
    "bar drawn over a text": (
        "under a rectangle",
        lambda s: with_mark(s, Rect(0, 0, 300, 40, "neutral")),
    ),
    "line through a text": (
        "crosses a stroke",
        lambda s: with_mark(s, Line(0, 24, 640, 24, "axis")),
    ),
    "sloping line through a text": (
        "crosses a stroke",
        lambda s: with_mark(s, Path(((10, 0), (60, 60)), "axis")),
    ),
    "arrow head on a text": (
        "crosses a stroke",
        lambda s: with_mark(s, Path(((300, 10), (300, 30), (200, 24)), "axis", arrow=True)),
    ),
    "bar leaves the frame": (
        "outside the frame",
        lambda s: edited(s, "bar-weights", width=600),
    ),
    "text leaves the frame": (
        "outside the frame",
        lambda s: edited(s, "value-weights", text="128 GiB of weights"),
    ),
    "negative width": (
        "negative width",
        lambda s: edited(s, "bar-weights", width=-3),
    ),
    "unknown role": (
        "not in the palette",
        lambda s: edited(s, "bar-weights", role="pink"),
    ),
    "small print": (
        "text under",
        lambda s: edited(s, "title", size=9),
    ),
    "pale text": (
        "contrast",
        lambda s: edited(s, "title", role="ghost"),
    ),
    "text in the colour of its bar": (
        "contrast",
        lambda s: edited(s, "value-weights", x=200),
    ),
    "text on a hatch": (
        "on a hatch",
        lambda s: edited(s, "value-optimizer", x=200, role="ground"),
    ),
    "id used twice": (
        "ids used twice",
        lambda s: with_mark(s, Rect(620, 280, 5, 5, "neutral", id="title")),
    ),
    "click without a name": (
        "no label",
        lambda s: edited(s, "pick-weights", label=""),
    ),
    "small target": (
        "target of",
        lambda s: with_mark(
            s,
            Group("dot", (Rect(620, 280, 5, 5, "neutral"),), "selected", "weights", "Weights"),
        ),
    ),
    "no alt text": ("no alt text", lambda s: replace(s, alt="")),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_scene_fails(name: str) -> None:
    message, corrupt = CORRUPTIONS[name]
    scene = FIGURE.scene(ranks="8", ghost="off")
    check_scene(scene)
    with pytest.raises(AssertionError, match=message):
        check_scene(corrupt(scene))


def test_a_plate_lets_a_text_cross_a_line() -> None:
    line, text = Line(0, 280, 640, 280, "axis"), Text(300, 284, "on a line")
    plate = Rect(296, 268, 100, 24, "ground")
    scene = FIGURE.scene()
    check_scene(with_mark(scene, line, plate, text))
    with pytest.raises(AssertionError, match="crosses a stroke"):
        check_scene(with_mark(scene, plate, line, text))


def test_grid_lines_may_pass_behind_a_text() -> None:
    check_scene(with_mark(FIGURE.scene(), Line(0, 24, 640, 24, "grid"), first=True))


def test_a_text_that_moves_with_a_knob_fails() -> None:
    def draw(**state: str) -> Scene:
        scene = FIGURE.draw(**state)
        shift = 4 if state["ranks"] == "2" else 0
        return edited(scene, "tick-4", y=264.0 + shift)

    with pytest.raises(AssertionError, match="moved, came or went"):
        check_figure(replace(FIGURE, draw=draw))


def test_a_frame_that_changes_fails() -> None:
    def draw(**state: str) -> Scene:
        scene = FIGURE.draw(**state)
        return replace(scene, height=scene.height + (state["ghost"] == "on"))

    with pytest.raises(AssertionError, match="other frame"):
        check_figure(replace(FIGURE, draw=draw))


def test_by_id_finds_groups_and_refuses_what_is_not_there() -> None:
    assert isinstance(by_id(FIGURE.scene(), "pick-weights"), Group)
    with pytest.raises(AssertionError, match="0 marks"):
        by_id(FIGURE.scene(), "nothing")


def test_a_refused_combination_is_a_sentence_in_the_same_frame() -> None:
    scene = FIGURE.scene(policy="impossible", ranks="64")
    assert (
        scene.problem
        == scene.alt
        == scene.status
        == ("No such plan: 64 ranks need a policy that exists.")
    )
    assert (scene.width, scene.height) == (FIGURE.scene().width, FIGURE.scene().height)
    check_scene(scene)


def test_a_long_refusal_is_broken_into_lines() -> None:
    scene = refused("gpus must be a multiple of pp, " * 12, 360, 300)
    assert len(scene.marks) > 8
    check_scene(scene)


@pytest.mark.parametrize("state", [{"ranks": "3"}, {"colour": "red"}, {"ghost": ""}])
def test_an_unknown_knob_or_value_is_an_error_and_not_a_picture(state: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(state))):
        FIGURE.scene(**state)
