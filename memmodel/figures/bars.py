"""Bars on one logarithmic axis: the same limits in every comparison, since a lever divides.

A tick is a factor of two, so a lever that divides by 64 moves a bar's end by six ticks wherever it
starts. A dashed outline is the bar before the lever, and the factor won stands beside the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log2

from memmodel.formats import Number, number_text, size_text
from memmodel.scene import Line, Mark, Rect, Table, Text

WIDTH = 680.0
LEFT, RIGHT = 190.0, 520.0  # of the plot; labels stand left of it, values right
ROW, BAR = 22.0, 14.0
TOP = 30.0
LOW, HIGH = 22, 44  # log2 of the axis' limits: 4 MiB and 16 TiB
LABELLED = 4  # a label every so many ticks: a factor of 16


@dataclass(frozen=True)
class Row:
    """One bar: `size` in bytes, None where this state does not show it; `before` for a ghost."""

    id: str
    label: str
    role: str
    size: Number | None
    before: Number | None = None
    head: bool = False  # the sum of the rows under it
    title: str = ""


def height(rows: int) -> float:
    """Height of a scene with so many rows."""
    return TOP + rows * ROW + 38


def position(size: Number) -> float:
    """The x of a bar's end; what is too small for the axis ends at its start.

    >>> position(2**22), position(2**44)
    (190.0, 520.0)
    """
    ticks = log2(size) - LOW if size > 0 else 0.0
    return LEFT + (RIGHT - LEFT) * min(max(ticks, 0.0), HIGH - LOW) / (HIGH - LOW)


def factor_text(before: Number, after: Number) -> str:
    """How many times smaller, in words; empty where nothing changed.

    >>> factor_text(64, 1), factor_text(3, 2), factor_text(5, 5)
    ('÷64', '÷1.50', '')
    """
    if before == after or not after:
        return ""
    factor = float(Fraction(before) / Fraction(after))
    shown = f"{factor:.0f}" if factor >= 100 or factor == int(factor) else f"{factor:.3g}"
    if factor < 10 and factor != int(factor):
        shown = f"{factor:.2f}"
    return f"÷{shown}"


def log_bars(rows: Sequence[Row], limit: int, limit_label: str) -> tuple[Mark, ...]:
    """Axis, limit line and bars of `rows`, top to bottom, in a frame of WIDTH by height(rows)."""
    bottom = TOP + len(rows) * ROW + 4
    marks: list[Mark] = []
    for tick in range(LOW, HIGH + 1):
        x = LEFT + (RIGHT - LEFT) * (tick - LOW) / (HIGH - LOW)
        labelled = (tick - LOW) % LABELLED == 0
        marks.append(Line(x, TOP, x, bottom, "grid", weight=1.5 if labelled else 1.0))
        marks.append(Line(x, bottom, x, bottom + (7 if labelled else 4), "axis"))
        if labelled:
            label = size_text(2**tick).replace(".00", "").replace(".0", "")
            marks.append(Text(x, bottom + 21, label, "muted", 12, "middle", id=f"tick-{tick}"))
    marks.append(Line(LEFT, bottom, RIGHT, bottom, "axis"))
    for index, row in enumerate(rows):
        marks += _row(row, TOP + index * ROW)
    x = position(limit)
    marks.append(Line(x, TOP - 6, x, bottom, "limit", dash=True, weight=1.5, id="limit"))
    marks.append(Text(x, TOP - 11, limit_label, "limit", 12, "middle", id="limit-label"))
    return tuple(marks)


def bars_table(rows: Sequence[Row]) -> Table:
    """The rows as text with the exact bytes, and with the factor won where there are ghosts."""
    columns = ("", "size", "bytes")
    won = any(row.before is not None for row in rows)
    body = []
    for row in rows:
        if row.size is None:
            continue
        cells = (
            row.label if row.head else f"  {row.label}",
            size_text(row.size),
            number_text(row.size),
        )
        before = row.size if row.before is None else row.before
        more = (size_text(before), factor_text(before, row.size)) if won else ()
        body.append(cells + more)
    return Table(columns + (("before", "factor won") if won else ()), tuple(body))


def _row(row: Row, top: float) -> list[Mark]:
    bar = BAR if row.head else BAR - 4
    y, baseline = top + (ROW - bar) / 2, top + 15.5
    marks: list[Mark] = [
        Text(
            LEFT - 10,
            baseline,
            row.label,
            "text" if row.head else "muted",
            13,
            "end",
            bold=row.head,
            id=f"label-{row.id}",
        )
    ]
    if row.size is None:
        return marks
    won = factor_text(row.before, row.size) if row.before is not None else ""
    if row.before is not None and won:
        marks.append(
            Rect(
                LEFT,
                y,
                position(row.before) - LEFT,
                bar,
                "ghost",
                filled=False,
                outline="dashed",
                id=f"ghost-{row.id}",
            )
        )
    marks.append(
        Rect(
            LEFT,
            y,
            position(row.size) - LEFT,
            bar,
            row.role,
            id=f"bar-{row.id}",
            title=row.title or f"{row.label}: {size_text(row.size)}",
        )
    )
    marks.append(
        Text(
            RIGHT + 86,
            baseline,
            size_text(row.size),
            "text",
            13,
            "end",
            bold=row.head,
            id=f"value-{row.id}",
        )
    )
    if won:
        marks.append(Text(RIGHT + 96, baseline, won, "muted", 13, id=f"value-won-{row.id}"))
    return marks
