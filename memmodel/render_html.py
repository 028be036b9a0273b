"""A figure as the static page shows it: controls, picture, words and table, before any script runs.

Everything a reader needs at the first look is in this text. The page's script only makes the
controls answer: it replaces picture, status and table by what `memmodel.live` returns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from html import escape

from memmodel.render_svg import svg
from memmodel.scene import Choice, Figure, Hidden, Knob, Powers, Switch, Table

BUTTONS_UP_TO = 48  # characters of all labels together that still fit as buttons in one row
RESET = '<button type="reset" form="{uid}-form" class="mm-reset" disabled>Reset</button>'
WITHOUT_SCRIPT = (
    '<noscript><p class="mm-off">The controls need JavaScript. The picture, its numbers and its '
    "table are complete without it.</p></noscript>"
)


def figure_key(figure: Figure, fixed: Mapping[str, str]) -> str:
    """Return what a figure is called in ids and in the page's address, unless told otherwise."""
    return re.sub("[^A-Za-z0-9]+", "-", "-".join([figure.name, *fixed.values()]))


def figure_html(
    figure: Figure,
    *,
    fixed: Mapping[str, str] | None = None,
    key: str = "",
    links: Mapping[str, Figure] | None = None,
) -> str:
    """Return the whole block of a figure for a page.

    Knobs named in `fixed` keep the given value and have no control. `key` names the figure in ids
    and in the page's address; a figure that stands twice on a page with the same `fixed` needs
    another one the second time. `links` are figures of the same page, by their keys, that clicks
    in this one load something into. Raises ValueError for an unknown knob or value.
    """
    fixed, links = dict(fixed or {}), dict(links or {})
    scene = figure.scene(**fixed)
    key = key or figure_key(figure, fixed)
    uid = f"mm-{key}"
    title = escape(figure.title)
    free = free_knobs(figure, fixed)
    defaults = {knob.name: knob.default for knob in free}
    titles = {other.name: other.title for other in links.values()}
    picture = svg(scene, uid=uid, title=figure.title, knobs=list(defaults), links=titles)
    parts = [
        (
            f'<figcaption class="mm-head"><span class="mm-name" id="{uid}-name">{title}</span>'
            f"{RESET.format(uid=uid) if free else ''}</figcaption>"
        ),
        _form(free, uid, title) if free else "",
        (
            f'<div class="mm-picture" role="region" tabindex="0" aria-label="Picture: {title}">'
            f"{picture}</div>"
        ),
        f'<p class="mm-status" role="status" aria-live="polite">{escape(scene.status)}</p>',
        f'<p class="mm-convention">{escape(figure.caption)}</p>' if figure.caption else "",
        (
            '<details class="mm-data"><summary>The numbers as a table</summary>'
            f'<div class="mm-rows" role="region" tabindex="0" aria-label="Table: {title}">'
            f"{table_html(scene.table, figure.title)}</div></details>"
        ),
    ]
    live = (
        f' data-figure="{escape(figure.name)}" data-key="{key}" data-fixed="{_json(fixed)}"'
        f' data-defaults="{_json(defaults)}"'
    )
    if links:
        live += f' data-links="{_json({other.name: at for at, other in links.items()})}"'
    return (
        f'<figure class="mm-figure" id="{uid}" aria-labelledby="{uid}-name"'
        f"{live if free else ''}>\n" + "\n".join(filter(None, parts)) + "\n</figure>"
    )


def _form(free: list[Knob], uid: str, title: str) -> str:
    controls = "".join(_control(knob, uid) for knob in free if not isinstance(knob, Hidden))
    fieldset = f'<fieldset class="mm-knobs" disabled>{controls}</fieldset>' if controls else ""
    return (
        f'<form id="{uid}-form" class="mm-form" autocomplete="off" aria-label="Controls: {title}">'
        f"{fieldset}</form>{WITHOUT_SCRIPT}"
    )


def figure_text(figure: Figure, *, fixed: Mapping[str, str] | None = None) -> str:
    """Return the first picture in words and numbers: what a notebook's tests compare."""
    scene = figure.scene(**(fixed or {}))
    rows = (scene.table.columns, *scene.table.rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    words = (figure.title, scene.alt, scene.status, figure.caption, "", *table)
    return "\n".join(line for at, line in enumerate(words) if line or at == 4)


def free_knobs(figure: Figure, fixed: Mapping[str, str]) -> list[Knob]:
    """Knobs that a reader can turn."""
    return [knob for knob in figure.knobs if knob.name not in fixed]


def table_html(table: Table, caption: str) -> str:
    """Return the drawn data as a table; the first column names its rows."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    body = "".join(map(_row_html, table.rows))
    return (
        f'<table class="mm-table"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


@lru_cache(maxsize=1024)  # most rows are the same after a change
def _row_html(row: tuple[str, ...]) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
    return f'<tr><th scope="row">{escape(row[0])}</th>{cells}</tr>'


def guess_html(question: str, answer: float, unit: str, label: str) -> str:
    """Return a small form that asks for one number and then sets the answer beside it.

    `label` says what the answer is ("all of it together"). Without a script the answer waits in a
    fold. The answer is shown with two decimals at most.

    >>> "8.65 TiB" in guess_html("How much is it?", 8.6539, "TiB", "naive and global")
    True
    """
    shown = f"{answer:,.2f}"
    shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
    return (
        f'<div class="mm-guess" data-answer="{answer!r}" data-unit="{escape(unit)}">'
        f'<form class="mm-ask" autocomplete="off" hidden><label class="mm-question">'
        f"<span>{escape(question)}</span>"
        f'<span class="mm-entry"><input type="text" inputmode="decimal" size="8" required> '
        f"{escape(unit)}</span></label>"
        '<button type="submit">Commit</button></form>'
        f'<details class="mm-answer"><summary><span class="mm-q">{escape(question)} </span>'
        f"Answer</summary><p>{escape(shown)} {escape(unit)}: {escape(label)}.</p></details>"
        '<p class="mm-gap" role="status" aria-live="polite"></p></div>'
    )


def _control(knob: Choice | Powers | Switch, uid: str) -> str:
    name = f"{uid}-{knob.name}"
    label = escape(knob.label)
    if isinstance(knob, Switch):
        checked = " checked" if knob.default == "on" else ""
        return (
            f'<div class="mm-knob mm-switch"><label for="{name}"><input type="checkbox" '
            f'role="switch" id="{name}" name="{knob.name}"{checked}><span>{label}</span></label>'
            f"{_hint(knob, name)}</div>"
        )
    if isinstance(knob, Powers):
        body = (
            f'<span class="mm-stepper"><button type="button" data-step="-1" '
            f'aria-label="{label}: halve">−</button>{_select(knob, name)}'
            f'<button type="button" data-step="1" aria-label="{label}: double">+</button></span>'
        )
        return _labelled(knob, name, body, f'<label for="{name}">{label}</label>')
    if len("".join(text for _, text in knob.options)) > BUTTONS_UP_TO:
        return _labelled(knob, name, _select(knob, name), f'<label for="{name}">{label}</label>')
    body = "".join(
        f'<label><input type="radio" name="{knob.name}" value="{escape(value)}"'
        f"{' checked' if value == knob.default else ''}><span>{escape(text)}</span></label>"
        for value, text in knob.options
    )
    group = f'<span class="mm-options" role="radiogroup" aria-labelledby="{name}">{body}</span>'
    return _labelled(knob, name, group, f'<span id="{name}">{label}</span>')


def _labelled(knob: Knob, name: str, body: str, label: str) -> str:
    return (
        f'<div class="mm-knob"><span class="mm-label">{label}{_hint(knob, name)}</span>{body}</div>'
    )


def _select(knob: Choice | Powers, name: str) -> str:
    texts = dict(knob.options) if isinstance(knob, Choice) else {}
    options = "".join(
        f'<option value="{escape(value)}"{" selected" if value == knob.default else ""}>'
        f"{escape(texts.get(value, value))}</option>"
        for value in knob.values()
    )
    return f'<select id="{name}" name="{knob.name}">{options}</select>'


def _hint(knob: Knob, name: str) -> str:
    hint = getattr(knob, "hint", "")
    if not hint:
        return ""
    return (
        f'<span class="mm-hint"><button type="button" aria-label="About {escape(knob.label)}" '
        f'aria-describedby="{name}-hint">?</button>'
        f'<span class="mm-tip" role="tooltip" id="{name}-hint">{escape(hint)}</span></span>'
    )


def _json(value: Mapping[str, str]) -> str:
    return escape(json.dumps(value, separators=(",", ":")))
