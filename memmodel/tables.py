"""Tables in a notebook: one value that shows itself as HTML in a page and as text elsewhere.

The text is what tests of the notebooks compare, so it is deterministic; the HTML is a real table
with header cells, which a screen reader can walk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape

from memmodel.formats import Number

_NUMBER = re.compile(r"[-+]?\d[\d,.]*( ?([KMGTPE]i)?B| ?%| ?[x×])?")


def gib(nbytes: Number, digits: int = 2) -> str:
    """A size in GiB, whatever it is: for columns that are compared.

    >>> gib(66_296_545_344), gib(9_510_443_889_664, 1)
    ('61.74 GiB', '8,857.3 GiB')
    """
    return f"{float(Fraction(nbytes) / 2**30):,.{digits}f} GiB"


@dataclass(frozen=True)
class Grid:
    """Rows of texts under named columns; `total` is a last row that is set apart."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] = ()
    caption: str = ""

    def _all_rows(self) -> tuple[tuple[str, ...], ...]:
        return (*self.rows, self.total) if self.total else self.rows

    def _is_number(self, column: int) -> bool:
        """Whether every filled cell of a column is a number or a size: then it is set right."""
        cells = [row[column] for row in self._all_rows() if row[column]]
        return bool(cells) and all(_NUMBER.fullmatch(cell) for cell in cells)

    def __repr__(self) -> str:
        """Return the table as aligned text.

        >>> Grid(("part", "bytes"), (("a", "12"), ("b", "7")), ("sum", "19"))
        part  bytes
        a        12
        b         7
        -----------
        sum      19
        """
        grid = (self.columns, *self._all_rows())
        widths = [max(len(row[i]) for row in grid) for i in range(len(self.columns))]
        lines = []
        for row in grid:
            cells = (
                cell.rjust(width) if self._is_number(i) else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  ".join(cells).rstrip())
        if self.total:
            lines.insert(-1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        numeric = [self._is_number(i) for i in range(len(self.columns))]
        head = _row("th", self.columns, numeric, ' scope="col"')
        body = "".join(_row("td", row, numeric) for row in self.rows)
        foot = f"<tfoot>{_row('td', self.total, numeric)}</tfoot>" if self.total else ""
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        # A wide table scrolls in its own box, never the page; the box can be reached by keyboard.
        label = escape(self.caption or "table: " + ", ".join(self.columns), quote=True)
        return (
            f'<div class="memmodel-table" style="overflow-x: auto" role="region" tabindex="0" '
            f'aria-label="{label}">'
            f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody>{foot}</table></div>"
        )


def _row(tag: str, cells: Sequence[str], numeric: Iterable[bool], attributes: str = "") -> str:
    """One row; the first cell of a body row names it."""
    out = []
    for i, (cell, right) in enumerate(zip(cells, numeric, strict=True)):
        kind, more = (tag, attributes) if tag == "th" or i else ("th", ' scope="row"')
        wrap = "normal" if i == 0 else "nowrap"  # names may break, numbers not
        side = "right" if right else "left"
        style = f' style="text-align: {side}; white-space: {wrap}; padding: 0.15em 0.5em"'
        out.append(f"<{kind}{more}{style}>{escape(cell)}</{kind}>")
    return f"<tr>{''.join(out)}</tr>"
