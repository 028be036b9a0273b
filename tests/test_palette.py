"""The palette can be read: contrast by the WCAG 2 formula, and told apart without colour."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from contrast import APART, check_greyscale, contrast

from memmodel.palette import PALETTE
from memmodel.scene import Mark, Rect, Scene, Table, Text

THEMES = ("light", "dark")
# "grid" is decoration (a faint help for the eye: every value it marks is also written).
DECORATION = {"grid"}
# Roles that figures use for text. Direct labels take the colour of their mark, so the four
# categories are here too; their "soft" parts are fills only and are labelled in the full hue.
TEXT = {
    "text",
    "muted",
    "limit",
    "focus",
    "weights",
    "gradients",
    "optimizer",
    "activations",
    "warning",
    "neutral",
    "good",
    "save",
    "recompute",
    "fp32",
    "bf16",
    "e5m6",
    "e4m3",
    "mxfp8",
}
# In a stack and in a list these stand side by side, in the order of the ledger. Categories that
# are not neighbours may share a grey; any further fill of the same hue is hatched instead.
CATEGORIES = ("weights", "gradients", "optimizer", "activations")


def of(role: str, theme: int) -> str:
    return PALETTE[role][theme]


@pytest.mark.parametrize("theme", [0, 1], ids=THEMES)
@pytest.mark.parametrize("role", sorted(TEXT))
def test_text_reaches_4_5_to_1_on_the_ground(role: str, theme: int) -> None:
    assert contrast(of(role, theme), of("ground", theme)) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=THEMES)
@pytest.mark.parametrize("role", sorted(set(PALETTE) - DECORATION - {"ground"}))
def test_fills_and_lines_reach_3_to_1_on_the_ground(role: str, theme: int) -> None:
    assert contrast(of(role, theme), of("ground", theme)) >= 3.0


@pytest.mark.parametrize("theme", [0, 1], ids=THEMES)
@pytest.mark.parametrize("pair", list(pairwise(CATEGORIES)))
def test_neighbours_differ_in_greyscale(pair: tuple[str, str], theme: int) -> None:
    assert contrast(of(pair[0], theme), of(pair[1], theme)) >= APART


@pytest.mark.parametrize("theme", [0, 1], ids=THEMES)
@pytest.mark.parametrize("category", CATEGORIES)
def test_soft_parts_differ_in_greyscale_and_carry_text(category: str, theme: int) -> None:
    assert contrast(of(category, theme), of(f"{category} soft", theme)) >= APART
    assert contrast(of("text", theme), of(f"{category} soft", theme)) >= 4.5


def test_every_colour_is_six_hex_digits() -> None:
    for role, pair in PALETTE.items():
        for colour in pair:
            assert re.fullmatch("#[0-9a-f]{6}", colour), role


def test_a_pale_text_colour_would_fail() -> None:
    assert contrast("#9aa4af", "#ffffff") < 4.5


def test_fills_that_touch_and_differ_in_colour_alone_fail() -> None:
    left, right = Rect(0, 0, 50, 20, "gradients"), Rect(50, 0, 50, 20, "activations")

    def scene(*marks: Mark) -> Scene:
        return Scene(100, 100, marks, "alt", "status", Table(("a",), (("1",),)))

    with pytest.raises(AssertionError, match="colour alone"):
        check_greyscale(scene(left, right))
    check_greyscale(scene(left, replace(right, x=60)))
    check_greyscale(scene(left, replace(right, hatch=True)))
    check_greyscale(scene(left, replace(right, role="optimizer")))
    labels = (Text(5, 15, "one", "ground"), Text(55, 15, "two", "ground"))
    check_greyscale(scene(left, right, *labels))
