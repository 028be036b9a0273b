"""What the page's runtime calls: the state of a figure in, picture and words out, both as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from memmodel import figures
from memmodel.render_html import free_knobs, table_html
from memmodel.render_svg import svg
from memmodel.scene import Figure, accepts


def draw(request: str) -> str:
    """Draw a figure in a state: `{"figure", "uid", "fixed", "state", "links"}` as JSON.

    `links` names the figures of the page that clicks in this one load something into.

    Returns `{"svg", "table", "status", "alt", "problem", "state"}` as JSON. A state comes from an
    address, so what the figure does not know in it is left out; "state" says what was drawn,
    knobs that recognise themselves included.
    Raises ValueError for an unknown figure.
    """
    asked = json.loads(request)
    figure = figures.get(asked["figure"])
    fixed = asked.get("fixed", {})
    state = known(figure, fixed, asked.get("state", {}))
    scene = figure.scene(**fixed, **state)
    titles = {name: figures.get(name).title for name in asked.get("links", ())}
    picture = svg(scene, uid=asked["uid"], title=figure.title, knobs=list(state), links=titles)
    answer = {
        "svg": picture,
        "table": table_html(scene.table, figure.title),
        "status": scene.status,
        "alt": scene.alt,
        "problem": scene.problem,
        "state": state | {k: v for k, v in scene.resolved.items() if k in state},
    }
    return json.dumps(answer, ensure_ascii=False)


def known(figure: Figure, fixed: Mapping[str, str], state: Mapping[str, str]) -> dict[str, str]:
    """Every free knob with its value from `state`, or its default where that is not possible."""
    return {
        knob.name: value if accepts(knob, value := state.get(knob.name, "")) else knob.default
        for knob in free_knobs(figure, fixed)
    }
