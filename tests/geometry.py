"""What must hold of every picture, read from the scene and not from pixels.

`check_scene` looks at one scene, `check_figure` at all states of a figure (or an even sample of
them). Both raise AssertionError with the marks at fault. `by_id` and `bar_width` read single marks
back, to compare a picture with the ledger.

Texts that may move with a knob (the value at a bar's end) have an id that starts with one of
`MOVING`; every other text with an id keeps its place and stays in every state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise, product
from math import gcd, isfinite, prod

from contrast import contrast

from memmodel.scene import (
    PALETTE,
    Figure,
    Group,
    Line,
    Mark,
    Path,
    Rect,
    Scene,
    Text,
    flatten,
    text_box,
)

Box = tuple[float, float, float, float]  # left, top, right, bottom
Drawn = Rect | Line | Path | Text

TOLERANCE = 0.5  # scene units; text boxes are on the safe side already
MINIMUM_TEXT = 12.0
MINIMUM_TARGET = 24.0
ARROW = 8.0  # reach of an arrow head around its point
FAINT = 1 / 3
MOVING = ("value",)


def by_id(scene: Scene, id: str) -> Mark:  # noqa: A002 - the field of a mark has this name
    """Return the one mark or group with this id."""
    found = [mark for mark in _walk(scene.marks) if getattr(mark, "id", "") == id]
    assert len(found) == 1, f"{len(found)} marks with id {id!r}"
    return found[0]


def bar_width(scene: Scene, id: str) -> float:  # noqa: A002
    """Width of the rectangle with this id, in scene units."""
    mark = by_id(scene, id)
    assert isinstance(mark, Rect), f"{id} is a {type(mark).__name__}, not a rectangle"
    return mark.width


def states(figure: Figure, limit: int = 400) -> list[dict[str, str]]:
    """All states of the knobs; past `limit`, the defaults, each knob turned alone, and a spread."""
    names = [knob.name for knob in figure.knobs]
    values = [knob.values() for knob in figure.knobs]
    count = prod(map(len, values))
    if count <= limit:
        return [dict(zip(names, state, strict=True)) for state in product(*values)]
    step = -(-count // limit)
    while any(gcd(step, len(options)) > 1 for options in values):
        step += 1  # coprime to every knob's number of values, so that all of them keep turning
    alone = [
        figure.defaults() | {knob.name: value} for knob in figure.knobs for value in knob.values()
    ]
    spread = islice(product(*values), 0, None, step)
    return alone + [dict(zip(names, state, strict=True)) for state in spread]


def check_figure(
    figure: Figure, *, limit: int = 400, moving: Sequence[str] = MOVING, scenes: bool = True
) -> int:
    """Check every state of `figure`, and that frame and layout are the same in all of them.

    Returns the number of states looked at.
    """
    first = figure.scene()
    assert not first.problem, f"{figure.name}: the first picture is a problem: {first.problem}"
    layout = _layout(first, moving)
    controls = [knob.name for knob in figure.knobs]
    reserved = {"alt", "form", "name", *controls, *(f"{name}-hint" for name in controls)}
    looked_at = states(figure, limit)
    for state in looked_at:
        scene = figure.scene(**state)
        where = f"{figure.name} {state}"
        assert (scene.width, scene.height) == (first.width, first.height), f"{where}: other frame"
        clash = reserved.intersection(getattr(mark, "id", "") for mark in _walk(scene.marks))
        assert not clash, f"{where}: the page calls other elements so: {clash}"
        if scenes:
            try:
                check_scene(scene)
            except AssertionError as error:
                raise AssertionError(f"{where}: {error}") from error
        if not scene.problem:
            found = _layout(scene, moving)
            moved = {k: (layout.get(k), found.get(k)) for k in layout.keys() ^ found.keys()}
            moved |= {k: (v, found[k]) for k, v in layout.items() if k in found and found[k] != v}
            assert not moved, f"{where}: texts that moved, came or went: {moved}"
    return len(looked_at)


def check_scene(scene: Scene) -> None:
    """Check the geometry, the legibility and the words of one scene."""
    marks = list(flatten(scene.marks))
    _check_names(scene)
    for mark in marks:
        assert mark.role in PALETTE, f"role {mark.role!r} is not in the palette: {mark}"
        _check_frame(mark, scene)
    texts = [(order, mark) for order, mark in enumerate(marks) if isinstance(mark, Text)]
    boxes = [_box(mark) for mark in marks]
    for at, (order, text) in enumerate(texts):
        assert text.size >= MINIMUM_TEXT, f"text under {MINIMUM_TEXT} units: {text}"
        for earlier, other in texts[:at]:
            assert not _overlap(boxes[order], boxes[earlier]), f"texts collide: {text} {other}"
        # Only what comes near a text can spoil it: a busy picture has thousands of other marks.
        near = [
            (i, mark)
            for i, mark in enumerate(marks)
            if i != order and _near(boxes[order], boxes[i])
        ]
        _check_free(order, text, near)
        _check_contrast(order, text, near)


def _check_names(scene: Scene) -> None:
    """Ids are unique; what can be clicked has a name and is large enough; the words are there."""
    ids = [mark.id for mark in _walk(scene.marks) if mark.id]
    twice = sorted({id for id in ids if ids.count(id) > 1})  # noqa: A001
    assert not twice, f"ids used twice: {twice}"
    assert scene.alt, "no alt text"
    assert scene.status, "no status"
    assert scene.table.rows, "no table"
    for row in scene.table.rows:
        assert len(row) == len(scene.table.columns), f"table row of another length: {row}"
    for group in _walk(scene.marks):
        if isinstance(group, Group) and group.knob:
            assert group.label, f"group {group.id} can be clicked and has no label"
            boxes = [_box(mark) for mark in flatten(group.marks)]
            wide = max(b[2] for b in boxes) - min(b[0] for b in boxes)
            high = max(b[3] for b in boxes) - min(b[1] for b in boxes)
            assert min(wide, high) >= MINIMUM_TARGET, f"{group.id}: target of {wide} by {high}"


def _check_frame(mark: Drawn, scene: Scene) -> None:
    left, top, right, bottom = _box(mark)
    assert all(map(isfinite, (left, top, right, bottom))), f"not a number: {mark}"
    assert left <= right, f"negative width: {mark}"
    assert top <= bottom, f"negative height: {mark}"
    inside = (
        left >= -TOLERANCE
        and top >= -TOLERANCE
        and right <= scene.width + TOLERANCE
        and bottom <= scene.height + TOLERANCE
    )
    assert inside, f"outside the frame of {scene.width} by {scene.height}: {mark}"


def _check_free(order: int, text: Text, marks: Sequence[tuple[int, Drawn]]) -> None:
    """No border, line or arrow runs through the text, and nothing is drawn over it.

    Grid lines may pass behind. A filled rectangle of role "ground" between a stroke and the text
    (a plate) makes the text readable, so it lifts the ban.
    """
    box = _shrunk(text_box(text))
    plates = [at for at, mark in marks if at < order and _is_plate(mark) and _holds(mark, box)]
    covered = max(plates, default=-1)
    for at, mark in marks:
        if isinstance(mark, Text) or mark.role == "grid" or at < covered or _is_plate(mark):
            continue
        if isinstance(mark, Rect):
            if not (mark.filled or mark.outline) or not _overlap(box, _box(mark)):
                continue
            assert _holds(mark, box), f"text crosses the border of a rectangle: {text} {mark}"
            assert at < order or not mark.filled, f"text lies under a rectangle: {text} {mark}"
        else:
            crossed = any(_segment_meets(start, end, box) for start, end in _segments(mark))
            assert not crossed, f"text crosses a stroke: {text} {mark}"


def _check_contrast(order: int, text: Text, marks: Sequence[tuple[int, Drawn]]) -> None:
    """4.5 to 1 against what lies directly behind the text, in both themes."""
    box = _shrunk(text_box(text))
    behind = [
        mark
        for at, mark in marks
        if at < order and isinstance(mark, Rect) and mark.filled and _holds(mark, box)
    ]
    for theme in (0, 1):
        ground = PALETTE["ground"][theme]
        for mark in behind:
            fill = PALETTE[mark.role][theme]
            ground = _blend(fill, ground, FAINT) if mark.faint else fill
        ratio = contrast(PALETTE[text.role][theme], ground)
        assert ratio >= 4.5, f"contrast {ratio:.2f} in the {('light', 'dark')[theme]} theme: {text}"
    assert not behind or not behind[-1].hatch, f"text on a hatch: {text}"


def _layout(scene: Scene, moving: Sequence[str]) -> Mapping[str, tuple[float, float, str]]:
    return {
        mark.id: (mark.x, mark.y, mark.anchor)
        for mark in flatten(scene.marks)
        if isinstance(mark, Text) and mark.id and not mark.id.startswith(tuple(moving))
    }


def _walk(marks: Sequence[Mark]) -> Iterator[Mark]:
    for mark in marks:
        yield mark
        if isinstance(mark, Group):
            yield from _walk(mark.marks)


def _box(mark: Drawn) -> Box:
    if isinstance(mark, Text):
        return text_box(mark)
    if isinstance(mark, Rect):
        return (mark.x, mark.y, mark.x + mark.width, mark.y + mark.height)
    points = [point for segment in _segments(mark) for point in segment]
    return (
        min(x for x, _ in points),
        min(y for _, y in points),
        max(x for x, _ in points),
        max(y for _, y in points),
    )


def _segments(mark: Line | Path) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    if isinstance(mark, Line):
        return [((mark.x1, mark.y1), (mark.x2, mark.y2))]
    points = (*mark.points, mark.points[0]) if mark.closed else mark.points
    segments = list(pairwise(points))
    if mark.arrow:  # the head reaches to both sides of the last point
        (x0, y0), (x1, y1) = points[-2], points[-1]
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
        across = (-(y1 - y0) / length * ARROW / 2, (x1 - x0) / length * ARROW / 2)
        back = (x1 - (x1 - x0) / length * ARROW, y1 - (y1 - y0) / length * ARROW)
        segments.append(
            ((back[0] - across[0], back[1] - across[1]), (back[0] + across[0], back[1] + across[1]))
        )
    return segments


def _is_plate(mark: Drawn) -> bool:
    return isinstance(mark, Rect) and mark.role == "ground" and mark.filled and not mark.outline


def _holds(mark: Drawn, box: Box) -> bool:
    left, top, right, bottom = _box(mark)
    return left <= box[0] and top <= box[1] and right >= box[2] and bottom >= box[3]


def _shrunk(box: Box) -> Box:
    return (box[0] + TOLERANCE, box[1] + TOLERANCE, box[2] - TOLERANCE, box[3] - TOLERANCE)


def _overlap(one: Box, other: Box) -> bool:
    return (
        min(one[2], other[2]) - max(one[0], other[0]) > TOLERANCE
        and min(one[3], other[3]) - max(one[1], other[1]) > TOLERANCE
    )


def _near(one: Box, other: Box) -> bool:
    """Whether two boxes touch or overlap; a stroke's box may have no width."""
    return min(one[2], other[2]) >= max(one[0], other[0]) and min(one[3], other[3]) >= max(
        one[1], other[1]
    )


def _segment_meets(start: tuple[float, float], end: tuple[float, float], box: Box) -> bool:
    """Whether a segment and a box have a point in common (Liang and Barsky's clipping)."""
    enter, leave = 0.0, 1.0
    for axis in (0, 1):
        low, high = box[axis], box[axis + 2]
        origin, step = start[axis], end[axis] - start[axis]
        if step == 0:
            if not low <= origin <= high:
                return False
            continue
        near, far = sorted(((low - origin) / step, (high - origin) / step))
        enter, leave = max(enter, near), min(leave, far)
    return enter <= leave


def _blend(over: str, under: str, strength: float) -> str:
    channels = (
        round(strength * int(over[i : i + 2], 16) + (1 - strength) * int(under[i : i + 2], 16))
        for i in (1, 3, 5)
    )
    return "#" + "".join(f"{channel:02x}" for channel in channels)
