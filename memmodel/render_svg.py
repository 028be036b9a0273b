"""A scene as SVG text: the same characters for the same scene, in every Python.

Roles become classes, so that a page's style sheet sets light and dark; attributes hold the light
colours for readers without it. Nothing is measured or decided here: coordinates, sizes and words
are the scene's own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from types import MappingProxyType

from memmodel.scene import PALETTE, Group, Line, Mark, Path, Rect, Scene, Text, flatten, text_box

# Lengths in scene units, the same as in the other renderer (compared in a test).
DASH = (4.0, 3.0)
OUTLINE = 1.5
HATCH_PITCH, HATCH_WEIGHT = 6.0, 1.5
ARROW_LENGTH, ARROW_WIDTH = 8.0, 7.0
FAINT = 0.33
RING = 3.0  # the focus ring stands this far outside of what it surrounds
SMALLEST_TEXT = 12.0  # CSS pixels, on the narrowest screen
LARGEST = 1.25  # times its own width: a wider screen does not enlarge the picture further
FONT = "system-ui, 'DejaVu Sans', sans-serif"


@lru_cache(maxsize=16384)  # coordinates repeat: bars stand in rows
def number(value: float) -> str:
    """Return a coordinate as text: at most two decimals, no trailing zeros, no minus zero.

    >>> number(12.0), number(0.126), number(-0.001), number(1e6 / 3)
    ('12', '0.13', '0', '333333.33')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def least_width(scene: Scene) -> float:
    """Width in CSS pixels below which the smallest text would shrink under 12 px.

    A narrower screen scrolls the picture sideways instead of shrinking it further.
    """
    sizes = [mark.size for mark in flatten(scene.marks) if isinstance(mark, Text)]
    return scene.width * SMALLEST_TEXT / min(sizes, default=SMALLEST_TEXT)


@dataclass(frozen=True)
class _Page:
    """What the marks of a picture need to know of the page around them."""

    scene: Scene
    uid: str
    knobs: Collection[str]
    links: Mapping[str, str]


def svg(
    scene: Scene,
    *,
    uid: str,
    title: str,
    knobs: Collection[str] = (),
    links: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return `scene` as one SVG element.

    `uid` makes the ids in it unique on its page; groups whose knob is among `knobs` become
    buttons, and those that load something into a figure of `links` (its name and title) say so.
    With a button inside, the picture is a group, else an image; both are named `title` and
    described by the scene's alt text.
    """
    page = _Page(scene, uid, knobs, links)
    body = "".join(_mark(mark, page) for mark in scene.marks)
    hatched = {m.role for m in flatten(scene.marks) if isinstance(m, Rect) and m.filled and m.hatch}
    patterns = "".join(_pattern(role, uid) for role in sorted(hatched))
    size = f'width="{number(scene.width)}" height="{number(scene.height)}"'
    role = "group" if 'role="button"' in body else "img"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mm-svg" {size} '
        f'viewBox="0 0 {number(scene.width)} {number(scene.height)}" '
        f'style="min-width:{number(least_width(scene))}px;'
        f'max-width:{number(LARGEST * scene.width)}px" font-family="{FONT}" '
        f'role="{role}" aria-label="{escape(title)}" aria-describedby="{uid}-alt">'
        f'<desc id="{uid}-alt">{escape(scene.alt)}</desc>'
        + (f"<defs>{patterns}</defs>" if patterns else "")
        + f"<rect {size} {_paint(fill='ground')}/>{body}</svg>"
    )


def _mark(mark: Mark, page: _Page) -> str:
    if isinstance(mark, Group):
        return _group(mark, page)
    return _leaf(mark, page.uid)


@lru_cache(maxsize=4096)
def _leaf(mark: Rect | Line | Path | Text, uid: str) -> str:
    """Return one mark; most of them are the same ones after a change, so they are remembered."""
    if isinstance(mark, Rect):
        return _rect(mark, uid)
    if isinstance(mark, Text):
        return _text(mark, uid)
    if isinstance(mark, Line):
        return _line(mark, uid)
    return _path(mark, uid)


def spoken(group: Group, links: Mapping[str, str]) -> str:
    """Return the accessible name of a button: what a click does, in a linked figure too.

    >>> step = Group("step", (), "selected", "7", "Step 7", into="other", loads=(("n", "7"),))
    >>> spoken(step, {"other": "The other figure"}), spoken(step, {})
    ('Step 7; shows it in “The other figure”', 'Step 7')
    """
    return group.label + (f"; shows it in “{links[group.into]}”" if group.into in links else "")


def _group(group: Group, page: _Page) -> str:
    inside = "".join(_mark(mark, page) for mark in group.marks)
    uid, knobs = page.uid, page.knobs
    if not group.knob or group.knob not in knobs:
        return f"<g{_id(group.id, uid)}>{inside}</g>"
    name = escape(spoken(group, page.links))
    pressed = "" if group.pressed is None else f' aria-pressed="{str(group.pressed).lower()}"'
    sets = {knob: value for knob, value in group.sets.items() if knob in knobs}
    more = f' data-sets="{escape(json.dumps(sets))}"' if len(sets) > 1 else ""
    if group.into in page.links:
        more += f' data-into="{group.into}" data-loads="{escape(json.dumps(dict(group.loads)))}"'
    return (
        f'<g{_id(group.id, uid)} class="mm-mark" role="button" tabindex="0" '
        f'aria-label="{name}"{pressed} data-knob="{escape(group.knob)}" '
        f'data-value="{escape(group.value)}"{more} data-mark="{escape(group.id)}">'
        f"{_target(group, page.scene)}{inside}</g>"
    )


def _target(group: Group, scene: Scene) -> str:
    """Return the area of a group that takes clicks, gaps included, and shows the focus."""
    boxes = [_box(mark) for mark in flatten(group.marks)]
    left = max(min(box[0] for box in boxes) - RING, 1)
    top = max(min(box[1] for box in boxes) - RING, 1)
    right = min(max(box[2] for box in boxes) + RING, scene.width - 1)
    bottom = min(max(box[3] for box in boxes) + RING, scene.height - 1)
    return (
        f'<rect class="mm-target" x="{number(left)}" y="{number(top)}" '
        f'width="{number(right - left)}" height="{number(bottom - top)}" rx="4" '
        f'fill="none" pointer-events="all"/>'
    )


def _box(mark: Rect | Line | Path | Text) -> tuple[float, float, float, float]:
    if isinstance(mark, Text):
        return text_box(mark)
    if isinstance(mark, Rect):
        return (mark.x, mark.y, mark.x + mark.width, mark.y + mark.height)
    if isinstance(mark, Line):
        points: tuple[tuple[float, float], ...] = ((mark.x1, mark.y1), (mark.x2, mark.y2))
    else:
        points = mark.points
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return (min(xs), min(ys), max(xs), max(ys))


def _rect(mark: Rect, uid: str) -> str:
    paint = _paint(
        fill=mark.role if mark.filled else "",
        hatch=f"{uid}-hatch-{_slug(mark.role)}" if mark.hatch else "",
        stroke=mark.role if mark.outline else "",
        weight=OUTLINE,
        dash=mark.outline == "dashed",
    )
    corner = f' rx="{number(mark.radius)}"' if mark.radius else ""
    faint = f' opacity="{number(FAINT)}"' if mark.faint else ""
    open_tag = (
        f'<rect{_id(mark.id, uid)} x="{number(mark.x)}" y="{number(mark.y)}" '
        f'width="{number(mark.width)}" height="{number(mark.height)}"{corner} {paint}{faint}'
    )
    return (
        f"{open_tag}><title>{escape(mark.title)}</title></rect>" if mark.title else open_tag + "/>"
    )


def _text(mark: Text, uid: str) -> str:
    anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
    weight = ' font-weight="700"' if mark.bold else ""
    return (
        f'<text{_id(mark.id, uid)} x="{number(mark.x)}" y="{number(mark.y)}" '
        f'font-size="{number(mark.size)}"{anchor}{weight} {_paint(fill=mark.role)}>'
        f"{escape(mark.text)}</text>"
    )


def _line(mark: Line, uid: str) -> str:
    return (
        f'<line{_id(mark.id, uid)} x1="{number(mark.x1)}" y1="{number(mark.y1)}" '
        f'x2="{number(mark.x2)}" y2="{number(mark.y2)}" '
        f"{_paint(stroke=mark.role, weight=mark.weight, dash=mark.dash)}/>"
    )


def _path(mark: Path, uid: str) -> str:
    if mark.closed:
        return f'<path{_id(mark.id, uid)} d="{_outline(mark.points)}Z" {_paint(fill=mark.role)}/>'
    stroke = _paint(stroke=mark.role, weight=mark.weight, dash=mark.dash)
    if not mark.arrow:
        return f'<path{_id(mark.id, uid)} d="{_outline(mark.points)}" {stroke}/>'
    head, neck = _arrow_head(mark)
    shaft = _outline((*mark.points[:-1], neck))
    return (
        f'<g{_id(mark.id, uid)}><path d="{shaft}" {stroke}/>'
        f'<path d="{_outline(head)}Z" {_paint(fill=mark.role)}/></g>'
    )


def _arrow_head(mark: Path) -> tuple[tuple[tuple[float, float], ...], tuple[float, float]]:
    """Return the triangle at the last point, and where the shaft meets it."""
    (x0, y0), (x1, y1) = mark.points[-2:]
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    bx, by = x1 - ux * ARROW_LENGTH, y1 - uy * ARROW_LENGTH
    sx, sy = -uy * ARROW_WIDTH / 2, ux * ARROW_WIDTH / 2
    return ((x1, y1), (bx + sx, by + sy), (bx - sx, by - sy)), (bx, by)


def _outline(points: tuple[tuple[float, float], ...]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def _pattern(role: str, uid: str) -> str:
    """Return the hatch of a role: strokes of the ground on its fill, where x + y = n * pitch."""
    p = HATCH_PITCH
    strokes = "".join(
        _outline(((x, y), (x + 2 * p, y - 2 * p)))
        for x, y in ((-p, p), (-p / 2, 1.5 * p), (0.0, 2 * p))
    )
    return (
        f'<pattern id="{uid}-hatch-{_slug(role)}" width="{number(p)}" height="{number(p)}" '
        f'patternUnits="userSpaceOnUse"><rect width="{number(p)}" height="{number(p)}" '
        f"{_paint(fill=role)}/>"
        f'<path d="{strokes}" {_paint(stroke="ground", weight=HATCH_WEIGHT)}/></pattern>'
    )


def _paint(
    *, fill: str = "", hatch: str = "", stroke: str = "", weight: float = 1.0, dash: bool = False
) -> str:
    """Return the attributes that colour a mark; `fill` and `stroke` are roles, "" is none."""
    classes, paint = [], 'fill="none"'
    if fill and hatch:
        paint = f'fill="url(#{hatch})"'
    elif fill:
        classes.append(f"f-{_slug(fill)}")
        paint = f'fill="{PALETTE[fill][0]}"'
    if stroke:
        classes.append(f"s-{_slug(stroke)}")
        paint += f' stroke="{PALETTE[stroke][0]}"'
        paint += "" if weight == 1 else f' stroke-width="{number(weight)}"'
        paint += f' stroke-dasharray="{" ".join(map(number, DASH))}"' if dash else ""
    return (f'class="{" ".join(classes)}" ' if classes else "") + paint


def _slug(role: str) -> str:
    return role.replace(" ", "-")


def _id(name: str, uid: str) -> str:
    return f' id="{uid}-{escape(name)}"' if name else ""


def palette_css() -> str:
    """Return the style rules that give every role its light and its dark colour.

    The book's theme says which one is on in the attribute `data-theme`, and stays light without a
    script; on other pages the reader's own preference holds.
    """
    light, dark = (
        "".join(f"--mm-{_slug(role)}:{pair[theme]};" for role, pair in PALETTE.items())
        for theme in (0, 1)
    )
    roles = "".join(
        f".f-{slug}{{fill:var(--mm-{slug})}}.s-{slug}{{stroke:var(--mm-{slug})}}\n"
        for slug in map(_slug, PALETTE)
    )
    elsewhere = ":root:not([data-theme],[data-content_root])"
    return (
        f":root{{{light}}}\nhtml[data-theme=dark]{{{dark}}}\n"
        f"@media (prefers-color-scheme:dark){{{elsewhere}{{{dark}}}}}\n{roles}"
    )
