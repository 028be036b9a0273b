"""Controls and picture in a notebook: a change of a knob redraws the figure.

`explore(figure)` as the last line of a cell is all that a page needs. The same cell output also
holds the static page's version, a PNG and a text, so one notebook serves JupyterLab, the book,
previews and the tests that compare outputs.
"""

from __future__ import annotations

from base64 import b64encode
from html import escape
from typing import Any

import ipywidgets
import traitlets

from memmodel.render_html import BUTTONS_UP_TO, figure_html, figure_text, guess_html, table_html
from memmodel.render_matplotlib import png
from memmodel.scene import Choice, Figure, Knob, Powers, Switch

NO_SELECTION = "none"
ROW = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 16px"}


def explore(figure: Figure, **fixed: str) -> Explorer:
    """Show `figure` with a control for each of its knobs.

    Knobs named in `fixed` keep the given value and have no control. Raises ValueError for an
    unknown knob or value.
    """
    return Explorer(figure, fixed)


class Picture(ipywidgets.Image):  # type: ignore[misc]  # publishes no types
    """An image whose tooltip is its accessible name.

    The page side reads `description` before it sets a tooltip, and images have none there: without
    this empty one the picture is replaced by an error.
    """

    description = traitlets.Unicode("").tag(sync=True)


class Explorer:
    """A figure, its controls and what they say now.

    `controls` holds the control of each free knob by name; setting their `value` is what a reader
    does. `box` is the whole as one widget, to be laid out with others.
    """

    def __init__(self, figure: Figure, fixed: dict[str, str]) -> None:
        self.figure = figure
        self.fixed = dict(fixed)
        self.scene = figure.scene(**fixed)
        free = [knob for knob in figure.knobs if knob.name not in fixed]
        self.controls = {knob.name: _control(knob) for knob in free}
        self.image = Picture(
            format="png",
            layout={"width": f"{self.scene.width:g}px", "max_width": "100%", "height": "auto"},
        )
        self.status = ipywidgets.HTML()
        self.table = ipywidgets.HTML(layout={"display": "none"})
        self.table_button = ipywidgets.ToggleButton(
            description="Numbers as a table", layout={"width": "auto"}
        )
        self.reset_button = ipywidgets.Button(
            description="Reset", tooltip="Back to the first picture", layout={"width": "auto"}
        )
        rows = [_with_steps(knob, self.controls[knob.name]) for knob in free]
        buttons = [self.reset_button, self.table_button] if free else [self.table_button]
        caption = ipywidgets.HTML(f"<small>{escape(figure.caption)}</small>")
        self.box = ipywidgets.VBox(
            [
                ipywidgets.HTML(f"<b>{escape(figure.title)}</b>"),
                ipywidgets.Box([*rows, *buttons], layout=ROW),
                self.image,
                self.status,
                caption,
                self.table,
            ]
        )
        self.table_button.observe(self._show_table, names="value")
        self._show()
        self.reset_button.on_click(lambda _: self.reset())
        for control in self.controls.values():
            control.observe(self._changed, names="value")

    @property
    def state(self) -> dict[str, str]:
        """The value of every knob, fixed ones included."""
        values = {name: _text(control.value) for name, control in self.controls.items()}
        return self.fixed | values

    def reset(self) -> None:
        """Set every control back to its default, with one redraw."""
        for control in self.controls.values():
            control.unobserve(self._changed, names="value")
        for knob in self.figure.knobs:
            if knob.name in self.controls:
                control = self.controls[knob.name]
                control.value = knob.default == "on" if _is_checkbox(control) else knob.default
        for control in self.controls.values():
            control.observe(self._changed, names="value")
        self._changed()

    def _changed(self, _: object = None) -> None:
        self.scene = self.figure.scene(**self.state)
        self._show()

    def _show(self) -> None:
        with self.image.hold_sync():  # picture and words arrive together
            self.image.value = png(self.scene)
            self.image.tooltip = self.scene.alt
        self.status.value = f'<span role="status">{escape(self.scene.status)}</span>'
        self._show_table()

    def _show_table(self, _: object = None) -> None:
        shown = self.table_button.value
        self.table.layout.display = "" if shown else "none"
        self.table.value = table_html(self.scene.table, self.figure.title) if shown else ""

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return one output in four formats; each reader of the notebook takes the one it knows."""
        data = dict(self.box._repr_mimebundle_())
        data["text/html"] = figure_html(self.figure, fixed=self.fixed)
        data["image/png"] = b64encode(self.image.value).decode()
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


def _is_checkbox(control: Any) -> bool:
    return isinstance(control, ipywidgets.Checkbox)


def _text(value: str | bool) -> str:
    """Return the value of a control as that of a knob: a checkbox is "on" or "off"."""
    return value if isinstance(value, str) else "on" if value else "off"


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
        self.commit = ipywidgets.Button(description="Commit", layout={"width": "auto"})
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
