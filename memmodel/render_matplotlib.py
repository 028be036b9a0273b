"""A scene as a matplotlib figure and as PNG: the same coordinates, sizes and colours as the SVG.

One scene unit is a hundredth of an inch, so text sizes and strokes keep their proportion to the
picture at every resolution. There are no axes: the scene brings its own ticks and limits. Figures
are made without pyplot, so nothing is registered, kept open or shown twice.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import LoadFlags
from matplotlib.path import Path as Outline
from matplotlib.transforms import Affine2D, TransformedPath
from PIL import Image

from memmodel.scene import PALETTE, Line, Path, Rect, Scene, Text, flatten

UNITS_PER_INCH = 100
POINTS_PER_UNIT = 72 / UNITS_PER_INCH
DASH = (4.0, 3.0)  # on, off; in scene units, as all lengths below
OUTLINE = 1.5
HATCH_PITCH, HATCH_WEIGHT = 6.0, 1.5
ARROW_LENGTH, ARROW_WIDTH = 8.0, 7.0
FAINT = 0.33
FONT = "DejaVu Sans"  # comes with matplotlib, so the picture is the same everywhere


@dataclass(frozen=True)
class Shape:
    """An outline that is filled, or stroked with `weight`; all a scene is made of in the end."""

    outline: Outline
    colour: str
    weight: float = 0.0  # 0 fills
    dash: bool = False
    strength: float = 1.0
    within: Outline | None = None  # nothing is drawn outside of this


class Drawing(Artist):
    """All shapes of a scene as one artist, in the scene's order.

    An artist for each mark would take twice the time: most of it is their bookkeeping.
    """

    def __init__(self, scene: Scene, theme: int) -> None:
        super().__init__()
        self.height = scene.height
        self.shapes = [shape for mark in flatten(scene.marks) for shape in _shapes(mark, theme)]

    def draw(self, renderer: Any) -> None:
        """Draw with whatever renderer matplotlib brings: pixels, PDF or SVG."""
        figure: Any = self.get_figure(root=True)
        # Scene units to inches (y turns over), inches to pixels at the resolution asked for.
        scale = figure.dpi / UNITS_PER_INCH
        place = Affine2D().scale(scale, -scale).translate(0, self.height * scale)
        for shape in self.shapes:
            pen = renderer.new_gc()
            pen.set_alpha(shape.strength)
            pen.set_linewidth(shape.weight * POINTS_PER_UNIT)
            if shape.weight:
                pen.set_foreground(shape.colour)
                pen.set_capstyle("butt")
                pen.set_joinstyle("miter")
            if shape.dash:
                pen.set_dashes(0, [length * POINTS_PER_UNIT for length in DASH])
            if shape.within:
                pen.set_clip_path(TransformedPath(shape.within, place))
            fill = None if shape.weight else to_rgba(shape.colour, shape.strength)
            renderer.draw_path(pen, shape.outline, place, fill)
            pen.restore()


def figure(scene: Scene, *, dark: bool = False) -> Figure:
    """Draw `scene` on a new matplotlib figure, on its light or its dark ground."""
    drawn = Figure(
        figsize=(scene.width / UNITS_PER_INCH, scene.height / UNITS_PER_INCH),
        dpi=UNITS_PER_INCH,
        facecolor=PALETTE["ground"][int(dark)],
    )
    drawn.add_artist(Drawing(scene, int(dark)))
    return drawn


def png(scene: Scene, scale: float = 2, *, dark: bool = False) -> bytes:
    """Return the scene as PNG, `scale` pixels a unit; equal scenes give equal bytes."""
    drawn = figure(scene, dark=dark)
    drawn.dpi = UNITS_PER_INCH * scale
    canvas: Any = FigureCanvasAgg(drawn)
    canvas.draw()
    return _png(np.asarray(canvas.buffer_rgba()))


def _shapes(mark: Rect | Line | Path | Text, theme: int) -> Iterator[Shape]:
    colour = PALETTE[mark.role][theme]
    if isinstance(mark, Text):
        if mark.text:
            yield Shape(_lettering(mark), colour)
    elif isinstance(mark, Rect):
        yield from _rectangle(mark, colour, PALETTE["ground"][theme])
    elif isinstance(mark, Line):
        ends = ((mark.x1, mark.y1), (mark.x2, mark.y2))
        yield Shape(Outline(ends), colour, mark.weight, mark.dash)
    elif mark.closed:
        yield Shape(Outline((*mark.points, mark.points[0]), closed=True), colour)
    elif mark.arrow:
        head, neck = _arrow_head(mark)
        yield Shape(Outline((*mark.points[:-1], neck)), colour, mark.weight, mark.dash)
        yield Shape(head, colour)
    else:
        yield Shape(Outline(mark.points), colour, mark.weight, mark.dash)


def _lettering(mark: Text) -> Outline:
    """Return the outlines of a text's letters.

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
    return Outline(np.concatenate(points), np.concatenate([codes for _, codes, _ in letters]))


@cache
def _letter(char: str, bold: bool) -> tuple[Any, Any, float]:
    """Points and codes of a letter's outline, and its advance; one unit is the font size."""
    font = get_font(findfont(FontProperties(family=FONT, weight=700 if bold else 400)))
    font.set_size(1000, 72)
    glyph = font.load_char(ord(char), flags=LoadFlags.NO_HINTING)
    points, codes = font.get_path()
    return points / 1000, codes, glyph.linearHoriAdvance / 65536 / 1000


def _rectangle(mark: Rect, colour: str, ground: str) -> Iterator[Shape]:
    outline = _rounded(mark)
    strength = FAINT if mark.faint else 1.0
    if mark.filled and mark.width and mark.height:
        yield Shape(outline, colour, strength=strength)
        if mark.hatch:
            yield Shape(_stripes(mark), ground, HATCH_WEIGHT, within=outline)
    if mark.outline:
        yield Shape(outline, colour, OUTLINE, mark.outline == "dashed", strength)


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


def compact(picture: bytes) -> bytes:
    """Return a PNG in 64 colours and packed hard: to be stored in a notebook, not to be quick."""
    packed = BytesIO()
    flat = Image.open(BytesIO(picture)).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    flat.save(packed, "PNG", optimize=True)
    return packed.getvalue()


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
