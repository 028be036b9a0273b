"""How well two colours are told apart, by the formula of WCAG 2."""

from __future__ import annotations


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
