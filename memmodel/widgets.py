"""Controls and picture in a notebook: a change of a knob redraws the figure.

`explore(figure)` as the last line of a cell is all that a page needs. The same cell output also
holds the static page's version, a PNG and a text, so one notebook serves JupyterLab, the book,
previews and the tests that compare outputs.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import partial
from html import escape
from typing import Any

import ipywidgets
import traitlets

from memmodel.render_html import (
    BUTTONS_UP_TO,
    figure_html,
    figure_key,
    figure_text,
    guess_html,
    table_html,
)
from memmodel.render_matplotlib import compact, png
from memmodel.render_svg import spoken
from memmodel.scene import Choice, Figure, Group, Hidden, Knob, Mark, Powers, Switch

NO_SELECTION = "none"
LARGE = 400_000  # scene units squared: 800 by 500
ROW = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 16px"}


def explore(figure: Figure, *, linked: Explorer | None = None, **fixed: str) -> Explorer:
    """Show `figure` with a control for each of its knobs.

    Knobs named in `fixed` keep the given value and have no control. What clicks in this figure
    load into another one appears in `linked`, shown elsewhere on the page. Raises ValueError for
    an unknown knob or value.
    """
    return Explorer(figure, fixed, linked)


class Picture(ipywidgets.Image):  # type: ignore[misc]  # publishes no types
    """An image whose tooltip is its accessible name.

    The page side reads `description` before it sets a tooltip, and images have none there: without
    this empty one the picture is replaced by an error.
    """

    description = traitlets.Unicode("").tag(sync=True)


class Explorer:
    """A figure, its controls and what they say now.

    `controls` holds the control of each free knob by name; setting their `value` is what a reader
    does. `box` is the whole as one widget, to be laid out with others. A picture cannot be clicked
    here: a selection has a list of its values, and where clicks set more than that, `marks` lists
    what can be clicked now and `click` does it.
    """

    def __init__(
        self, figure: Figure, fixed: dict[str, str], linked: Explorer | None = None
    ) -> None:
        self.figure = figure
        self.fixed = dict(fixed)
        self.linked = linked
        self.links = {figure_key(linked.figure, linked.fixed): linked.figure} if linked else {}
        self.scene = figure.scene(**fixed)
        self.state = figure.defaults() | self.fixed
        # Large pictures have more to draw and to send, and are less in need of sharpness.
        self.scale = 2 if self.scene.width * self.scene.height < LARGE else 1.5
        free = [knob for knob in figure.knobs if knob.name not in fixed]
        self.controls = {knob.name: _control(knob) for knob in free if not _only_clicked(knob)}
        self.image = Picture(
            format="png",
            layout={"width": f"{self.scene.width:g}px", "max_width": "100%", "height": "auto"},
        )
        self.status = ipywidgets.HTML()
        self.table = ipywidgets.HTML(layout={"display": "none"})
        self.table_button = ipywidgets.ToggleButton(
            description="Numbers as a table", layout={"width": "auto"}
        )
        self.reset_button = _button("Reset", "Back to the first picture")
        self.marks = _control(Choice("marks", "In the picture", (("", ""),), ""))
        self.click = _button("Click it", "Do what a click on this part of the picture does")
        rows = [_with_steps(k, self.controls[k.name]) for k in free if k.name in self.controls]
        rows += [self.marks, self.click] if any(map(_only_clicked, free)) else []
        rows += [self.reset_button, self.table_button] if free else [self.table_button]
        caption = ipywidgets.HTML(f"<small>{escape(figure.caption)}</small>")
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HTML(f"<b>{escape(figure.title)}</b>"),
                ipywidgets.Box(rows, layout=ROW),
                self.image,
                self.status,
                caption,
                self.table,
            ]
        )
        self._following = False
        self.turn()
        self.table_button.observe(self._show_table, names="value")
        self.reset_button.on_click(lambda _: self.turn(**figure.defaults()))
        self.click.on_click(self._click)
        for name, control in self.controls.items():
            control.observe(partial(self._turned, name), names="value")

    def turn(self, **values: str) -> None:
        """Set free knobs to new values, all in one redraw; fixed ones keep theirs."""
        self.state |= values | self.fixed
        self.scene = self.figure.scene(**self.state)
        self.state |= dict(self.scene.resolved) | self.fixed
        self._show()
        self._follow()

    def _turned(self, name: str, change: Any) -> None:
        if self._following:
            return
        value = change["new"]
        sets = {name: value if isinstance(value, str) else "on" if value else "off"}
        # A list of what can be clicked does what the click does.
        group = next((g for g in self._clickable().values() if g.sets == sets), None)
        if group:
            self.press(group)
        else:
            self.turn(**sets)

    def press(self, group: Group) -> None:
        """Do what a click on a part of the picture does, in the linked figure too."""
        self.turn(**group.sets)
        if self.linked and group.into == self.linked.figure.name:
            self.linked.turn(**dict(group.loads))
            self._say(f"{self.scene.status} “{self.linked.figure.title}” shows it.")

    def _follow(self) -> None:
        """Let every control say what the state is, without another redraw."""
        self._following = True
        for name, control in self.controls.items():
            value = self.state[name]
            control.value = value == "on" if isinstance(control, ipywidgets.Checkbox) else value
        chosen = self.marks.value
        titles = {figure.name: figure.title for figure in self.links.values()}
        marks = [(spoken(group, titles), name) for name, group in self._clickable().items()]
        marks = marks or [("", "")]
        if tuple(marks) != tuple(self.marks.options):
            self.marks.options = marks
            self.marks.value = chosen if chosen in {name for _, name in marks} else marks[0][1]
        self._following = False

    def _clickable(self) -> dict[str, Group]:
        """Return the buttons of the picture by id, as it is now."""
        groups = _groups(self.scene.marks)
        return {group.id: group for group in groups if group.knob not in self.fixed}

    def _click(self, _: object) -> None:
        if group := self._clickable().get(self.marks.value):
            self.press(group)

    def _show(self) -> None:
        with self.image.hold_sync():  # picture and words arrive together
            self.image.value = png(self.scene, self.scale)
            self.image.tooltip = self.scene.alt
        self._say(self.scene.status)
        self._show_table()

    def _say(self, words: str) -> None:
        self.status.value = f'<span role="status">{escape(words)}</span>'

    def _show_table(self, _: object = None) -> None:
        shown = self.table_button.value
        self.table.layout.display = "" if shown else "none"
        self.table.value = table_html(self.scene.table, self.figure.title) if shown else ""

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return one output in four formats; each reader of the notebook takes the one it knows."""
        data = dict(self.box._repr_mimebundle_())
        data["text/html"] = figure_html(self.figure, fixed=self.fixed, links=self.links)
        data["image/png"] = b64encode(compact(self.image.value)).decode()
        data["text/plain"] = figure_text(self.figure, fixed=self.fixed)
        size = {"width": self.scene.width, "height": self.scene.height}
        return data, {"image/png": size}


def _control(knob: Knob) -> Any:
    words: dict[str, Any] = {"description": knob.label, "style": {"description_width": "initial"}}
    if hint := getattr(knob, "hint", ""):
        words["tooltip"] = hint
    if isinstance(knob, Switch):
        return ipywidgets.Checkbox(value=knob.default == "on", indent=False, **words)
    if isinstance(knob, Choice):
        labels = [label for _, label in knob.options]
        options = [(label, value) for value, label in knob.options]
        if len("".join(labels)) <= BUTTONS_UP_TO:
            words["style"]["button_width"] = "auto"
            words["tooltips"] = [f"{knob.label}: {label}" for label in labels]
            return ipywidgets.ToggleButtons(options=options, value=knob.default, **words)
    else:  # a picture cannot be clicked here, so a selection is chosen from a list too
        options = [(value or NO_SELECTION, value) for value in knob.values()]
    words["layout"] = {"width": "auto"}
    return ipywidgets.Dropdown(options=options, value=knob.default, **words)


def _with_steps(knob: Knob, control: Any) -> Any:
    """Return the control; powers of two get a button for one step down and one for one up.

    A list with a label works with every keyboard and screen reader, which the sliders of
    ipywidgets do not: theirs have no name and read out a position instead of the value.
    """
    if not isinstance(knob, Powers):
        return control
    values = knob.values()
    buttons = []
    for sign, step, verb in (("−", -1, "halve"), ("+", 1, "double")):
        button = ipywidgets.Button(
            description=sign,
            tooltip=f"{knob.label}: {verb}",
            layout={"width": "32px", "padding": "0"},
        )

        def turn(_: object, step: int = step) -> None:
            control.value = values[values.index(control.value) + step]

        def limit(_: object = None, button: Any = button, step: int = step) -> None:
            button.disabled = control.value == (values[-1] if step > 0 else values[0])

        button.on_click(turn)
        control.observe(limit, names="value")
        limit()
        buttons.append(button)
    return ipywidgets.HBox([control, *buttons])


def _button(description: str, tooltip: str) -> Any:
    return ipywidgets.Button(description=description, tooltip=tooltip, layout={"width": "auto"})


def _only_clicked(knob: Knob) -> bool:
    """Whether the values of a knob are too many for a list."""
    return isinstance(knob, Hidden) and bool(knob.pattern)


def _groups(marks: Iterable[Mark]) -> Iterator[Group]:
    """Yield the groups that can be clicked."""
    for mark in marks:
        if isinstance(mark, Group):
            if mark.knob:
                yield mark
            yield from _groups(mark.marks)


def guess(question: str, *, answer: float, unit: str, label: str) -> Guess:
    """Ask for one number before it is shown; then set the answer beside the guess.

    `answer` is positive; `label` says what it is ("all of it together").
    """
    return Guess(question, answer, unit, label)


class Guess:
    """A question, a field for a number, and the answer once a number is in it."""

    def __init__(self, question: str, answer: float, unit: str, label: str) -> None:
        self.page = guess_html(question, answer, unit, label)
        self.words = f"{question} ({unit})"
        self.answer, self.unit, self.label = answer, unit, label
        self.field = ipywidgets.FloatText(
            description=f"Your guess in {unit}",
            style={"description_width": "initial"},
        )
        self.commit = _button("Commit", "Show the answer")
        self.gap = ipywidgets.HTML()
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HTML(escape(question)),
                ipywidgets.Box([self.field, self.commit], layout=ROW),
                self.gap,
            ]
        )
        self.commit.on_click(self._compare)

    def _compare(self, _: object) -> None:
        said, answer = self.field.value, self.answer
        words = f"{answer:,.2f} {self.unit}: {self.label}."
        if said > 0:
            factor = max(said, answer) / min(said, answer)
            side = "above" if said > answer else "below"
            words += f" Your {said:g} is {side} it by a factor of {factor:.2f}."
        self.gap.value = f'<span role="status">{escape(words)}</span>'

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """Return the controls, the page's version and the question in one output."""
        data = dict(self.box._repr_mimebundle_())
        return data | {"text/html": self.page, "text/plain": self.words}
