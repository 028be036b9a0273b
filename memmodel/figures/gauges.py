"""What stands below and around the block's diagram: totals, notes, a legend, buttons."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from memmodel.figures.diagram import BOTTOM, MFLOP_PER_BAR, WIDTH, comb
from memmodel.formats import size_text
from memmodel.recompute import Stash
from memmodel.scene import Group, Line, Mark, Rect, Text, text_width

SEQ_LEN = 4096
# An interior rank of the published plan: DualPipeV at PP 8 keeps 2 * 8 + 1 stashes alive, in
# chunks of four layers each (compared with the ledger in a test).
STASHES, LAYERS = 17, 4
RANK_TOKENS = STASHES * LAYERS * SEQ_LEN
GIB = 2**30
YARDSTICK = 80 * GIB

SCALES = (("token", "one token, one layer"), ("rank", "an interior rank"))
RANKS = {"moe": "an interior rank", "dense": "a rank of as many dense layers"}
KINDS = (("moe", "MoE"), ("dense", "dense"))

MARGIN = 22.0
LEFT, ROW = 138.0, 24.0
UNITS_PER_GIB = 2.9  # the worst policy keeps 148.4 GiB in bf16
TOP = BOTTOM + 44
HEIGHT = TOP + 152


@lru_cache(maxsize=2048)
def sized(nbytes: int, scale: str) -> str:
    """Bytes per token, or of a rank, for people."""
    return size_text(nbytes * RANK_TOKENS if scale == "rank" else nbytes)


def gib_text(nbytes: int) -> str:
    """Bytes in GiB with two decimals.

    >>> gib_text(71481425920)
    '66.57 GiB'
    """
    return f"{nbytes / GIB:.2f} GiB"


def gigaflop_text(flops: float) -> str:
    """FLOPs per token in GFLOP with two decimals.

    >>> gigaflop_text(1338667392)
    '1.34 GFLOP'
    """
    return f"{flops / 1e9:.2f} GFLOP"


def percent_text(part: float, whole: float) -> str:
    """A share as text, with the digits that tell it from 0 and from 100.

    >>> percent_text(1, 12), percent_text(0, 12), percent_text(12, 12), percent_text(1, 10**6)
    ('8.33 %', '0 %', '100 %', 'under 0.01 %')
    """
    if part in (0, whole):
        return "0 %" if part == 0 else "100 %"
    share = 100 * part / whole
    if not 0.01 <= share < 99.95:
        return "under 0.01 %" if share < 1 else "over 99.9 %"
    return f"{share:.2f} %" if share < 10 else f"{share:.1f} %"


def bars(mflop: float) -> int:
    """How many bars of 10 MFLOP, rounded."""
    return round(mflop / MFLOP_PER_BAR)


def replay_text(replay: float, forward: float) -> str:
    """What is replayed, as a share of the forward and in bars.

    >>> replay_text(1e8, 1e9)
    '10.0 %, 10 bars'
    """
    return f"{percent_text(replay, forward)}, {bars(replay / 1e6)} bars"


@lru_cache(maxsize=1)
def _frame() -> tuple[Mark, ...]:
    x, low = LEFT + 80 * UNITS_PER_GIB, TOP + 22
    marks: list[Mark] = [Line(MARGIN, TOP - 16, WIDTH - 24, TOP - 16, "grid")]
    for row, label in enumerate(("kept on a rank", "forward", "replayed")):
        marks.append(Text(LEFT - 10, TOP + row * ROW + 16, label, "text", 13, "end", bold=row == 0))
    marks += [
        Line(x, TOP - 2, x, low, "limit", dash=True, weight=1.5),
        Text(x + 5, TOP - 1, "80 GiB", "limit", 12),
    ]
    return tuple(marks)


class Words(NamedTuple):
    """What stands at the ends of the three rows."""

    kept: str
    forward: str
    replayed: str


def gauges(
    now: Stash, before: Stash, *, forward: float, replay: float, words: Words
) -> tuple[Mark, ...]:
    """The total with its ghost and limit, and the two rows of bars; costs in FLOPs per token."""
    total, ghost = now.bytes_per_token * RANK_TOKENS, before.bytes_per_token * RANK_TOKENS
    return (
        Rect(
            LEFT,
            TOP + 5,
            ghost / GIB * UNITS_PER_GIB,
            14,
            "ghost",
            filled=False,
            outline="dashed",
            id="ghost-total",
        ),
        Rect(LEFT, TOP + 5, total / GIB * UNITS_PER_GIB, 14, "activations", id="bar-total"),
        *_frame(),
        _value(0, words.kept, bold=True, id="value-total"),
        *comb(LEFT, TOP + ROW + 8, forward / 1e6, "text"),
        _value(1, words.forward, id="value-forward"),
        *comb(LEFT, TOP + 2 * ROW + 8, replay / 1e6, "recompute"),
        _value(2, words.replayed, id="value-replay"),
    )


def _value(row: int, words: str, *, id: str, bold: bool = False) -> Text:  # noqa: A002
    return Text(WIDTH - 24, TOP + row * ROW + 16, words, "text", 13, "end", bold=bold, id=id)


def notes(*lines: tuple[str, str]) -> tuple[Mark, ...]:
    """Sentences under the gauges, as (role, words); an empty one leaves its line free."""
    return tuple(
        Text(MARGIN, TOP + 3 * ROW + 20 + 20 * row, fitted(words), role, 13, id=f"value-note-{row}")
        for row, (role, words) in enumerate(lines)
        if words
    )


def fitted(words: str, size: float = 13.0, room: float = WIDTH - MARGIN - 24) -> str:
    """`words`, ended with an ellipsis where they are wider than the frame.

    >>> fitted("a line", 13, 30)
    'a l…'
    """
    if text_width(words, size) <= room:
        return words
    left, end = room - text_width("…", size), 0
    while (left := left - text_width(words[end], size)) >= 0:
        end += 1
    return words[:end].rstrip(" ,") + "…"


def wrapped(words: str, size: float = 13.0, room: float = WIDTH - MARGIN - 24) -> list[str]:
    """`words` on as many lines as they need.

    >>> wrapped("one two three", 13, 60)
    ['one two', 'three']
    """
    lines: list[str] = []
    for word in words.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def heading(words: str, left: float) -> Text:
    """The name of a column."""
    return Text(left, 23, words, "text", 15, bold=True)


def button(
    name: str,
    right: float,
    wide: float,
    words: str,
    *,
    label: str,
    pressed: bool,
    sets: tuple[tuple[str, str], ...],
) -> Group:
    """A button with words in it, right-aligned."""
    place = (right - wide, 6.0, wide, 24.0)
    return Group(
        id=name.replace(" ", "-"),
        marks=(
            *((Rect(*place, "save", radius=5, faint=True),) if pressed else ()),
            Rect(*place, "save", filled=False, outline="solid", radius=5),
            Text(right - wide / 2, 22.3, words, "text", 12, "middle"),
        ),
        knob=sets[0][0],
        value=sets[0][1],
        also=sets[1:],
        label=label,
        pressed=pressed,
    )


@lru_cache(maxsize=2)
def legend(entries: tuple[tuple[str, float, float], ...]) -> tuple[Mark, ...]:
    """Names of the marks, each (kind, x, baseline); kinds are those of `_SAMPLES`."""
    marks: list[Mark] = []
    for kind, x, y in entries:
        style, words = _SAMPLES[kind]
        marks.append(Rect(x, y - 8, 22, 8, **style))  # type: ignore[arg-type]
        marks.append(Text(x + 28, y, words, "muted", 12))
    return tuple(marks)


_SAMPLES: dict[str, tuple[dict[str, object], str]] = {
    "kept": ({"role": "activations"}, "kept for a backward"),
    "anchor": ({"role": "activations", "hatch": True}, "kept for a replay only"),
    "replayed": ({"role": "recompute", "filled": False, "outline": "dashed"}, "replayed"),
    "before": ({"role": "ghost", "filled": False, "outline": "dashed"}, "its size in bf16"),
    "dual": ({"role": "e4m3", "hatch": True}, "second orientation"),
}
