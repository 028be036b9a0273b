"""How well two colours are told apart, by the formula of WCAG 2."""

from __future__ import annotations

from itertools import combinations

from memmodel.palette import PALETTE
from memmodel.scene import Rect, Scene, Text, flatten, text_box

# Ratio of two greys that the eye tells apart when they touch (text needs far more).
APART = 1.4


def luminance(colour: str) -> float:
    """Relative luminance of "#rrggbb" (WCAG 2.2), from 0 (black) to 1 (white).

    >>> luminance("#ffffff")
    1.0
    """
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, from 1 to 21.

    >>> contrast("#000000", "#ffffff")
    21.0
    """
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def check_greyscale(scene: Scene) -> None:
    """Check that fills of different roles that touch can be told apart without their colour.

    By their greys in both themes, a hatch, an outline, or a label on each of the two.
    """
    marks = list(flatten(scene.marks))
    texts = [text_box(mark) for mark in marks if isinstance(mark, Text)]
    fills = [
        mark for mark in marks if isinstance(mark, Rect) and mark.filled and mark.role != "ground"
    ]
    for one, other in combinations(fills, 2):
        if one.role == other.role or not _touch(one, other):
            continue
        told_apart = (
            one.hatch != other.hatch
            or bool(one.outline or other.outline)
            or all(any(_holds(mark, box) for box in texts) for mark in (one, other))
            or all(
                contrast(PALETTE[one.role][theme], PALETTE[other.role][theme]) >= APART
                for theme in (0, 1)
            )
        )
        assert told_apart, f"these differ in colour alone: {one} {other}"


def _touch(one: Rect, other: Rect) -> bool:
    """Whether two rectangles share more of a border than a corner, or overlap."""
    wide = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    high = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    return min(wide, high) > -0.6 and max(wide, high) > 2


def _holds(mark: Rect, box: tuple[float, float, float, float]) -> bool:
    return (
        mark.x <= box[0]
        and mark.y <= box[1]
        and mark.x + mark.width >= box[2]
        and mark.y + mark.height >= box[3]
    )
