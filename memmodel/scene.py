"""Marks, knobs and their geometry: what a picture is before anyone draws it.

A figure is a pure function from the state of its knobs to a `Scene`: plain, frozen data in one
coordinate system (x to the right, y down, one unit = one CSS pixel at full size). Both renderers
take the same scene and decide nothing, so the picture in JupyterLab and the one in the static page
cannot differ in content, and tests read geometry from the scene itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from re import fullmatch

# Whoever draws or measures a scene needs these two as well.
from memmodel.lettering import text_width as text_width  # noqa: PLC0414
from memmodel.palette import PALETTE as PALETTE  # noqa: PLC0414


@dataclass(frozen=True)
class Rect:
    """A rectangle; `hatch` tells two fills of one hue apart; `outline`: "", "solid" or "dashed"."""

    x: float
    y: float
    width: float
    height: float
    role: str
    filled: bool = True
    hatch: bool = False
    outline: str = ""
    radius: float = 0.0
    id: str = ""
    title: str = ""  # what a hover or a screen reader says of this mark
    faint: bool = False  # drawn at a third of its strength: present, but not the subject


@dataclass(frozen=True)
class Line:
    """A straight stroke; `dash` draws it dashed."""

    x1: float
    y1: float
    x2: float
    y2: float
    role: str
    dash: bool = False
    weight: float = 1.0
    id: str = ""


@dataclass(frozen=True)
class Path:
    """A polyline, or a filled polygon when `closed`; `arrow` puts a head at its last point."""

    points: tuple[tuple[float, float], ...]
    role: str
    closed: bool = False
    arrow: bool = False
    dash: bool = False
    weight: float = 1.0
    id: str = ""


@dataclass(frozen=True)
class Text:
    """One line of text whose baseline starts, centres or ends at (x, y)."""

    x: float
    y: float
    text: str
    role: str = "text"
    size: float = 13.0
    anchor: str = "start"  # start | middle | end
    bold: bool = False
    id: str = ""


@dataclass(frozen=True)
class Group:
    """Marks that belong together; with `knob`, a click or Enter on them sets it to `value`.

    `also` are further knobs that the same click sets, in one redraw: what a page or a notebook
    applies is always the whole of `sets`. A group whose `knob` is fixed is no button. `loads` are
    knobs of the figure called `into`: where that figure is linked, the click sets them there too.
    """

    id: str
    marks: tuple[Mark, ...]
    knob: str = ""
    value: str = ""
    label: str = ""  # the accessible name; required with a knob
    pressed: bool | None = None  # for toggles: whether this is the state now
    also: tuple[tuple[str, str], ...] = ()
    into: str = ""
    loads: tuple[tuple[str, str], ...] = ()

    @property
    def sets(self) -> dict[str, str]:
        """Every knob that a click sets, with its new value.

        >>> Group("op", (), knob="policy", value="custom", also=(("marks", "01"),)).sets
        {'policy': 'custom', 'marks': '01'}
        """
        return dict(((self.knob, self.value), *self.also)) if self.knob else {}


Mark = Rect | Line | Path | Text | Group


@dataclass(frozen=True)
class Choice:
    """One of several named options; `options` are (value, label) pairs."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    default: str
    hint: str = ""

    def values(self) -> tuple[str, ...]:
        return tuple(value for value, _ in self.options)


@dataclass(frozen=True)
class Powers:
    """A stepper over the powers of two from `low` to `high` (both powers of two, inclusive)."""

    name: str
    label: str
    low: int
    high: int
    default: str
    hint: str = ""

    def values(self) -> tuple[str, ...]:
        powers = range(self.low.bit_length() - 1, self.high.bit_length())
        return tuple(str(2**power) for power in powers)


@dataclass(frozen=True)
class Switch:
    """On or off; its values are "on" and "off"."""

    name: str
    label: str
    default: str = "off"
    hint: str = ""

    def values(self) -> tuple[str, ...]:
        return ("off", "on")


@dataclass(frozen=True)
class Hidden:
    """A knob that only marks of the scene set (a selection): one of `options`; "" is none.

    With `pattern`, every text that matches it in full is a value too, and `options` are only
    some of them, for tests and for lists.
    """

    name: str
    label: str
    options: tuple[str, ...] = ("",)
    default: str = ""
    pattern: str = ""

    def values(self) -> tuple[str, ...]:
        return self.options


Knob = Choice | Powers | Switch | Hidden


def accepts(knob: Knob, value: str) -> bool:
    """Whether `value` is one that the knob can have.

    >>> accepts(Hidden("marks", "Marks", pattern="[01]{3}"), "010")
    True
    """
    if isinstance(knob, Hidden) and knob.pattern and fullmatch(knob.pattern, value):
        return True
    return value in knob.values()


State = Mapping[str, str]  # knob name -> value; every value is text, as in a form or a URL


@dataclass(frozen=True)
class Table:
    """The drawn data as text: what stands behind the figure for readers of tables and screens."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Scene:
    """A whole picture: its size, its marks, and what it says in words.

    `resolved` are knobs that should read otherwise than they were set: a preset that recognises
    itself. After a redraw their controls take these values, without another redraw, since the
    scene of the state so changed is this scene.
    """

    width: float
    height: float
    marks: tuple[Mark, ...]
    alt: str  # what the picture shows, with the numbers of this state
    status: str  # one short sentence announced after a change
    table: Table
    problem: str = ""  # why this combination of knobs is impossible; then marks show only that
    resolved: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A named picture with knobs. `draw` takes the value of every knob by name and returns a Scene.

    Every scene of a figure has the same width and height, whatever the state.
    """

    name: str
    title: str
    knobs: tuple[Knob, ...]
    draw: Callable[..., Scene]
    caption: str = ""  # the convention under the figure, in one line

    def defaults(self) -> dict[str, str]:
        return {knob.name: knob.default for knob in self.knobs}

    def scene(self, **state: str) -> Scene:
        """Draw the scene for `state`; knobs that are not named keep their default.

        Raises ValueError for an unknown knob or value. A combination that the model refuses
        (ValueError from the plan) is drawn as a sentence, since a reader may click anything.
        """
        chosen = self.defaults()
        for name, value in state.items():
            if name not in chosen:
                raise ValueError(f"{self.name}: no knob {name!r}, only {', '.join(chosen)}")
            chosen[name] = value
        for knob in self.knobs:
            if not accepts(knob, chosen[knob.name]):
                raise ValueError(
                    f"{self.name}: {knob.name} = {chosen[knob.name]!r}, not one of "
                    f"{', '.join(knob.values())}"
                )
        try:
            return self.draw(**chosen)
        except ValueError as error:
            frame = self.draw(**self.defaults())  # the first picture must be possible
            return refused(str(error), frame.width, frame.height)


def refused(why: str, width: float, height: float) -> Scene:
    """Return a scene that says in words why there is nothing to draw.

    >>> refused("pp * dp = 1792, gpus is 2048", 640, 300).problem
    'pp * dp = 1792, gpus is 2048'
    """
    size, lines = 15.0, [""]
    for word in why.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width - 40:
            lines.append(word)
        else:
            lines[-1] = longer
    top = height / 2 - (len(lines) - 1) * 11
    return Scene(
        width=width,
        height=height,
        marks=tuple(
            Text(width / 2, top + row * 22, line, "warning", size, "middle", id=f"problem-{row}")
            for row, line in enumerate(lines)
        ),
        alt=why,
        status=why,
        table=Table(("problem",), ((why,),)),
        problem=why,
    )


def flatten(marks: tuple[Mark, ...]) -> Iterator[Rect | Line | Path | Text]:
    """Every drawn mark, groups opened, in drawing order."""
    for mark in marks:
        if isinstance(mark, Group):
            yield from flatten(mark.marks)
        else:
            yield mark


def text_box(text: Text) -> tuple[float, float, float, float]:
    """(left, top, right, bottom) of a text, ascenders and descenders included."""
    width = text_width(text.text, text.size, text.bold)
    left = text.x - {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
    return (left, text.y - 0.8 * text.size, left + width, text.y + 0.25 * text.size)
