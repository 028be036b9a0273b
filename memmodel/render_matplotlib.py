"""A scene as a matplotlib figure and as PNG: the same coordinates, sizes and colours as the SVG.

One scene unit is a hundredth of an inch, so text sizes and strokes keep their proportion to the
picture at every resolution. There are no axes: the scene brings its own ticks and limits. Figures
are made without pyplot, so nothing is registered, kept open or shown twice.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import LoadFlags
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.transforms import Affine2D, Transform

from memmodel.scene import PALETTE, Line, Path, Rect, Scene, Text, flatten

if TYPE_CHECKING:
    from matplotlib.artist import Artist

UNITS_PER_INCH = 100
POINTS_PER_UNIT = 72 / UNITS_PER_INCH
DASH = (4.0, 3.0)  # on, off; in scene units, as all lengths below
OUTLINE = 1.5
HATCH_PITCH, HATCH_WEIGHT = 6.0, 1.5
ARROW_LENGTH, ARROW_WIDTH = 8.0, 7.0
FAINT = 0.33
FONT = "DejaVu Sans"  # comes with matplotlib, so the picture is the same everywhere


def figure(scene: Scene, *, dark: bool = False) -> Figure:
    """Draw `scene` on a new matplotlib figure, on its light or its dark ground."""
    theme = int(dark)
    drawn = Figure(
        figsize=(scene.width / UNITS_PER_INCH, scene.height / UNITS_PER_INCH),
        dpi=UNITS_PER_INCH,
        facecolor=PALETTE["ground"][theme],
    )
    FigureCanvasAgg(drawn)
    # Scene units to inches (y turns over), inches to pixels at whatever resolution is asked for.
    place = (
        Affine2D()
        .scale(1 / UNITS_PER_INCH, -1 / UNITS_PER_INCH)
        .translate(0, scene.height / UNITS_PER_INCH)
        + drawn.dpi_scale_trans
    )
    for order, mark in enumerate(flatten(scene.marks)):
        for artist in _artists(mark, theme, place):
            artist.set_zorder(order)  # the order of drawing is the scene's, not matplotlib's
            drawn.add_artist(artist, clip=False)
    return drawn


def png(scene: Scene, scale: float = 2, *, dark: bool = False) -> bytes:
    """Return the scene as PNG, `scale` pixels a unit; equal scenes give equal bytes."""
    drawn = figure(scene, dark=dark)
    drawn.dpi = UNITS_PER_INCH * scale
    canvas: Any = FigureCanvasAgg(drawn)
    canvas.draw()
    return _png(np.asarray(canvas.buffer_rgba()))


def _artists(mark: Rect | Line | Path | Text, theme: int, place: Transform) -> list[Artist]:
    colour = PALETTE[mark.role][theme]
    if isinstance(mark, Text):
        return [_label(mark, colour, place)]
    if isinstance(mark, Rect):
        return _rectangle(mark, colour, PALETTE["ground"][theme], place)
    if isinstance(mark, Line):
        ends = ((mark.x1, mark.y1), (mark.x2, mark.y2))
        return [_stroke(Outline(ends), colour, mark.weight, place, dash=mark.dash)]
    if mark.closed:
        polygon = Outline((*mark.points, mark.points[0]), closed=True)
        return [_fill(polygon, colour, place)]
    points = mark.points
    if not mark.arrow:
        return [_stroke(Outline(points), colour, mark.weight, place, dash=mark.dash)]
    head, neck = _arrow_head(mark)
    shaft = Outline((*points[:-1], neck))
    return [
        _stroke(shaft, colour, mark.weight, place, dash=mark.dash),
        _fill(head, colour, place),
    ]


def _label(mark: Text, colour: str, place: Transform) -> Artist:
    """Return a text as the outlines of its letters.

    matplotlib lays out and rasters a text anew at every redraw, over a millisecond each; outlines
    of letters are fetched once, and placing them costs a tenth of that.
    """
    letters = [_letter(char, mark.bold) for char in mark.text]
    starts = np.cumsum([0.0] + [advance for _, _, advance in letters]) * mark.size
    x = mark.x - starts[-1] * {"start": 0.0, "middle": 0.5, "end": 1.0}[mark.anchor]
    points = [
        points * (mark.size, -mark.size) + (x + start, mark.y)
        for (points, _, _), start in zip(letters, starts, strict=False)
    ]
    codes = [codes for _, codes, _ in letters]
    return _fill(Outline(np.concatenate(points), np.concatenate(codes)), colour, place)


@cache
def _letter(char: str, bold: bool) -> tuple[Any, Any, float]:
    """Points and codes of a letter's outline, and its advance; one unit is the font size."""
    font = get_font(findfont(FontProperties(family=FONT, weight=700 if bold else 400)))
    font.set_size(1000, 72)
    glyph = font.load_char(ord(char), flags=LoadFlags.NO_HINTING)
    points, codes = font.get_path()
    return points / 1000, codes, glyph.linearHoriAdvance / 65536 / 1000


def _rectangle(mark: Rect, colour: str, ground: str, place: Transform) -> list[Artist]:
    outline = _rounded(mark)
    strength = FAINT if mark.faint else 1.0
    found: list[Artist] = []
    if mark.filled and mark.width and mark.height:
        found.append(_fill(outline, colour, place, strength))
        if mark.hatch:
            stripes = _stroke(_stripes(mark), ground, HATCH_WEIGHT, place)
            stripes.set_clip_path(outline, place)
            found.append(stripes)
    if mark.outline:
        found.append(
            _stroke(
                outline, colour, OUTLINE, place, dash=mark.outline == "dashed", strength=strength
            )
        )
    return found


def _fill(outline: Outline, colour: str, place: Transform, strength: float = 1.0) -> Artist:
    return PathPatch(outline, facecolor=colour, linewidth=0, alpha=strength, transform=place)


def _stroke(
    outline: Outline,
    colour: str,
    weight: float,
    place: Transform,
    *,
    dash: bool = False,
    strength: float = 1.0,
) -> Artist:
    return PathPatch(
        outline,
        fill=False,
        edgecolor=colour,
        linewidth=weight * POINTS_PER_UNIT,
        # matplotlib counts dashes in line widths
        linestyle=(0, [length / weight for length in DASH]) if dash else "solid",
        capstyle="butt",
        joinstyle="miter",
        alpha=strength,
        transform=place,
    )


def _rounded(mark: Rect) -> Outline:
    left, top, right, bottom = mark.x, mark.y, mark.x + mark.width, mark.y + mark.height
    r = min(mark.radius, mark.width / 2, mark.height / 2)
    if not r:
        corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
        return Outline(corners, closed=True)
    # Each corner is one curve: the point before it, the corner as control point, the point after.
    points = [(left + r, top), (right - r, top)]
    points += [(right, top), (right, top + r), (right, bottom - r)]
    points += [(right, bottom), (right - r, bottom), (left + r, bottom)]
    points += [(left, bottom), (left, bottom - r), (left, top + r)]
    points += [(left, top), (left + r, top), (left + r, top)]
    line, curve = Outline.LINETO, Outline.CURVE3
    codes = [Outline.MOVETO, line, *(curve, curve, line) * 3, curve, curve, Outline.CLOSEPOLY]
    return Outline(points, codes)


def _stripes(mark: Rect) -> Outline:
    """Return the hatch of a rectangle: rising strokes, cut at its borders by their equation."""
    points: list[tuple[float, float]] = []
    left, top, right, bottom = mark.x, mark.y, mark.x + mark.width, mark.y + mark.height
    # The stroke of number n runs where x + y = n * pitch, so stripes meet across neighbours.
    number = int((left + top) // HATCH_PITCH) + 1
    while (level := number * HATCH_PITCH) < right + bottom:
        points.append((max(left, level - bottom), min(bottom, level - left)))
        points.append((min(right, level - top), max(top, level - right)))
        number += 1
    return Outline(points, [Outline.MOVETO, Outline.LINETO] * (len(points) // 2))


def _arrow_head(mark: Path) -> tuple[Outline, tuple[float, float]]:
    """Return the triangle at the last point, and where the shaft meets it."""
    (x0, y0), (x1, y1) = mark.points[-2:]
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    bx, by = x1 - ux * ARROW_LENGTH, y1 - uy * ARROW_LENGTH
    sx, sy = -uy * ARROW_WIDTH / 2, ux * ARROW_WIDTH / 2
    tip = (x1, y1)
    return Outline([tip, (bx + sx, by + sy), (bx - sx, by - sy), tip], closed=True), (bx, by)


def _png(pixels: Any) -> bytes:
    """Encode an array of height by width by four bytes as PNG.

    Flat colours compress well without PNG's line filters, whose trial takes longer than all of
    the drawing.
    """
    height, width = pixels.shape[:2]
    lines = np.zeros((height, 1 + 4 * width), np.uint8)  # a line starts with its filter: 0, none
    lines[:, 1:] = pixels.reshape(height, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        checked = name + data
        return len(data).to_bytes(4) + checked + zlib.crc32(checked).to_bytes(4)

    bits, rgba = 8, 6
    header = width.to_bytes(4) + height.to_bytes(4) + bytes((bits, rgba, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines.data, 1))
        + chunk(b"IEND", b"")
    )
