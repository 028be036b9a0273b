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

from memmodel.render_html import figure_html, figure_text
from memmodel.render_matplotlib import png
from memmodel.scene import Choice, Figure, Hidden, Knob, Powers, Table

BUTTONS_UP_TO = 48  # characters of all labels together that still fit as buttons in one row
NO_SELECTION = "none"


def explore(figure: Figure, **fixed: str) -> Explorer:
    """Show `figure` with a control for each of its knobs.

    Knobs named in `fixed` keep the given value and have no control. Raises ValueError for an
    unknown knob or value.
    """
    return Explorer(figure, fixed)


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
        self.image = ipywidgets.Image(
            format="png",
            layout={"width": f"{self.scene.width:g}px", "max_width": "100%", "height": "auto"},
        )
        self.status = ipywidgets.HTML()
        self.table = ipywidgets.HTML()
        self.reset_button = ipywidgets.Button(
            description="Reset", tooltip="Back to the first picture", layout={"width": "auto"}
        )
        rows = ipywidgets.Accordion(
            children=[self.table], titles=("The numbers as a table",), selected_index=None
        )
        knobs = ipywidgets.Box(
            [*self.controls.values(), self.reset_button],
            layout={"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 16px"},
        )
        caption = ipywidgets.HTML(f"<small>{escape(figure.caption)}</small>")
        parts = [knobs, self.image, self.status, caption, rows]
        self.box = ipywidgets.VBox(parts if free else parts[1:])
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
        self.table.value = _table(self.scene.table, self.figure.title)

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
    if isinstance(knob, Choice):
        options = [(label, value) for value, label in knob.options]
        if len("".join(label for label, _ in options)) > BUTTONS_UP_TO:
            return ipywidgets.Dropdown(options=options, value=knob.default, **words)
        words["style"]["button_width"] = "auto"
        return ipywidgets.ToggleButtons(options=options, value=knob.default, **words)
    if isinstance(knob, Powers):
        return ipywidgets.SelectionSlider(options=knob.values(), value=knob.default, **words)
    if isinstance(knob, Hidden):  # a picture cannot be clicked here, so the selection has a list
        options = [(value or NO_SELECTION, value) for value in knob.values()]
        return ipywidgets.Dropdown(options=options, value=knob.default, **words)
    return ipywidgets.Checkbox(value=knob.default == "on", indent=False, **words)


def _is_checkbox(control: Any) -> bool:
    return isinstance(control, ipywidgets.Checkbox)


def _text(value: str | bool) -> str:
    """Return the value of a control as that of a knob: a checkbox is "on" or "off"."""
    return value if isinstance(value, str) else "on" if value else "off"


def _table(table: Table, caption: str) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
