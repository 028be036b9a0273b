"""The picture in JupyterLab shows the scene: places, sizes and colours are read from its pixels."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from dataclasses import replace
from io import BytesIO
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from demo_figure import BAR, FIGURE, LEFT, PITCH, TOP
from geometry import bar_width, states

from memmodel.render_matplotlib import figure, png
from memmodel.scene import PALETTE, Line, Mark, Path, Rect, Scene, Table, Text, text_box

SCENE = FIGURE.scene(ghost="off")


def scene_of(*marks: Mark) -> Scene:
    return Scene(400, 100, marks, "alt", "status", Table(("a",), (("1",),)))


def pixels(scene: Scene, scale: float = 1, *, dark: bool = False) -> Any:
    """Return the picture as an array of height by width by (red, green, blue), 0 to 255."""
    decoded = matplotlib.image.imread(BytesIO(png(scene, scale, dark=dark)), format="png")
    return np.rint(decoded[:, :, :3] * 255).astype(int)


def rgb(role: str, theme: int = 0) -> list[int]:
    colour = PALETTE[role][theme]
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def ink(scene: Scene, scale: int = 4) -> tuple[float, float, float, float]:
    """Return (left, top, right, bottom) of all that is not ground, in scene units."""
    drawn = np.abs(pixels(scene, scale) - rgb("ground")).sum(axis=2) > 60
    rows, columns = np.flatnonzero(drawn.any(axis=1)), np.flatnonzero(drawn.any(axis=0))
    left, top, right, bottom = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    return (left / scale, top / scale, right / scale, bottom / scale)


@pytest.mark.parametrize("scale", [1, 1.5, 2])
def test_a_unit_is_a_pixel_times_the_scale(scale: float) -> None:
    height, width, _ = pixels(SCENE, scale).shape
    assert (width, height) == (SCENE.width * scale, SCENE.height * scale)


def test_equal_scenes_give_equal_bytes_and_another_bar_gives_others() -> None:
    assert png(FIGURE.scene()) == png(FIGURE.scene())
    assert png(FIGURE.scene(ranks="4")) != png(FIGURE.scene(ranks="8"))


@pytest.mark.parametrize("theme", [0, 1])
def test_the_ground_is_the_theme_s(theme: int) -> None:
    assert list(pixels(SCENE, dark=bool(theme))[0, 0]) == rgb("ground", theme)


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("ranks", ["1", "2", "16"])
def test_a_bar_has_its_colour_and_ends_where_the_scene_says(ranks: str, theme: int) -> None:
    scene = FIGURE.scene(ranks=ranks, ghost="off")
    line = pixels(scene, 2, dark=bool(theme))[int(2 * (TOP + PITCH / 2)), :]
    coloured = np.flatnonzero((line == rgb("weights", theme)).all(axis=1))
    coloured = coloured[coloured < 2 * 565]  # the value has the colour too
    assert coloured[0] == pytest.approx(2 * LEFT, abs=1)
    assert coloured[-1] + 1 == pytest.approx(2 * (LEFT + bar_width(scene, "bar-weights")), abs=1)


def test_a_bar_is_as_high_as_the_scene_says() -> None:
    column = pixels(SCENE, 2)[:, int(2 * LEFT + 40)]
    coloured = np.flatnonzero((column == rgb("weights")).all(axis=1))
    assert len(coloured) == pytest.approx(2 * BAR, abs=1)


@pytest.mark.parametrize("bold", [False, True])
@pytest.mark.parametrize("anchor", ["start", "middle", "end"])
@pytest.mark.parametrize("size", [12, 16])
def test_a_text_fills_its_box(anchor: str, size: float, bold: bool) -> None:
    text = Text(200, 50, "Gap 61.7 GiB", anchor=anchor, size=size, bold=bold)
    left, top, right, bottom = ink(scene_of(text))
    box = text_box(text)
    assert box[0] - 0.5 <= left
    assert right <= box[2] + 0.5
    assert box[1] <= top
    assert bottom <= box[3] + 0.5
    assert right - left > 0.9 * (box[2] - box[0])
    middle = {"start": left, "middle": (left + right) / 2, "end": right}[anchor]
    assert middle == pytest.approx(200, abs=2)


def test_a_dollar_and_a_backslash_are_themselves() -> None:
    left, _, right, _ = ink(scene_of(Text(10, 50, r"$\alpha$ and $\beta$")))
    assert right - left > 120  # as formulas they would be short


def test_a_line_of_an_odd_height_and_its_dashes() -> None:
    solid = pixels(scene_of(Line(0, 50, 400, 50, "limit", weight=2)), 2)
    dashed = pixels(scene_of(Line(0, 50, 400, 50, "limit", weight=2, dash=True)), 2)
    is_red = [(lines[100] == rgb("limit")).all(axis=1) for lines in (solid, dashed)]
    assert is_red[0].all()
    assert is_red[1].mean() == pytest.approx(4 / 7, abs=0.1)


def test_an_arrow_has_a_head_at_its_last_point() -> None:
    shaft = Path(((20, 50), (100, 50)), "axis")
    without, with_head = ink(scene_of(shaft)), ink(scene_of(replace(shaft, arrow=True)))
    assert with_head[2] == pytest.approx(100, abs=0.5)
    assert with_head[3] - with_head[1] > 5 > without[3] - without[1]


def test_a_polygon_is_filled() -> None:
    triangle = Path(((20, 20), (60, 20), (40, 60)), "good", closed=True)
    assert list(pixels(scene_of(triangle))[30, 40]) == rgb("good")


def test_a_hatch_shows_ground_between_its_stripes_and_stays_inside() -> None:
    bar = Rect(20, 20, 100, 40, "optimizer", hatch=True)
    inside = pixels(scene_of(bar), 2)[40:120, 40:240].reshape(-1, 3)
    share = (inside == rgb("ground")).all(axis=1).mean()
    assert 0.1 < share < 0.5
    stripes_only = Rect(20, 20, 100, 40, "ground", hatch=True)
    panel = Rect(0, 0, 200, 100, "weights")
    assert ink(scene_of(bar)) == (20, 20, 120, 60)
    around = pixels(scene_of(panel, stripes_only))
    assert list(around[18, 50]) == rgb("weights")


def test_a_faint_bar_is_a_third_as_strong() -> None:
    shown = pixels(scene_of(Rect(20, 20, 100, 40, "weights", faint=True)))[40, 60]
    expected = [
        one / 3 + 2 * other / 3 for one, other in zip(rgb("weights"), rgb("ground"), strict=True)
    ]
    assert list(shown) == pytest.approx(expected, abs=1.5)


def test_an_unfilled_rectangle_is_its_outline() -> None:
    frame = Rect(20, 20, 100, 40, "ghost", filled=False, outline="solid")
    shown = pixels(scene_of(frame), 2)
    assert list(shown[80, 120]) == rgb("ground")
    assert list(shown[40, 120]) == rgb("ghost")


def test_rounded_corners_leave_the_ground_free() -> None:
    sharp = scene_of(Rect(20, 20, 100, 40, "weights"))
    round_ = scene_of(Rect(20, 20, 100, 40, "weights", radius=8))
    assert list(pixels(sharp, 2)[41, 41]) == rgb("weights")
    assert list(pixels(round_, 2)[41, 41]) == rgb("ground")
    assert ink(sharp) == ink(round_)


def test_later_marks_cover_earlier_ones_whatever_their_kind() -> None:
    line, plate = Line(0, 50, 400, 50, "limit", weight=4), Rect(50, 40, 50, 20, "good")
    assert list(pixels(scene_of(line, plate))[50, 75]) == rgb("good")
    assert list(pixels(scene_of(plate, line))[50, 75]) == rgb("limit")


def test_the_figure_keeps_its_proportions_at_another_resolution() -> None:
    buffer = BytesIO()
    figure(SCENE).savefig(buffer, dpi=50, format="png")
    buffer.seek(0)
    half = matplotlib.image.imread(buffer, format="png")
    assert half.shape[:2] == (SCENE.height / 2, SCENE.width / 2)
    row = np.rint(half[int((TOP + PITCH / 2) / 2), :, :3] * 255).astype(int)
    assert list(row[int(LEFT / 2) + 4]) == rgb("weights")


def test_every_state_can_be_drawn_on_both_grounds() -> None:
    for state in states(FIGURE, 12):
        for dark in (False, True):
            assert png(FIGURE.scene(**state), 1, dark=dark).startswith(b"\x89PNG")


@pytest.mark.slow
def test_no_global_figures_are_kept() -> None:
    code = (
        "import sys; from demo_figure import FIGURE; from memmodel.render_matplotlib import png;"
        "png(FIGURE.scene()); sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    tests = pathlib.Path(__file__).parent
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=tests,
        env=os.environ | {"PYTHONPATH": str(tests.parent)},
    )
