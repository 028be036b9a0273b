"""A small figure that uses everything a figure may use, for the tests of renderers and controls.

Four bars of invented sizes. It has one knob of each kind, bars to click, an option that the model
refuses, and shows every mark: rectangles (filled, outlined, hatched, faint), lines, an arrow, a
polygon, and texts of every anchor.
"""

from __future__ import annotations

from math import log2

from memmodel.scene import (
    Choice,
    Figure,
    Group,
    Hidden,
    Line,
    Mark,
    Path,
    Powers,
    Rect,
    Scene,
    Switch,
    Table,
    Text,
)

WIDTH, HEIGHT = 640.0, 300.0
LEFT, RIGHT, TOP, PITCH, BAR = 120.0, 560.0, 70.0, 44.0, 26.0
NAMES = ("weights", "gradients", "optimizer", "activations")
TOTALS = {"weights": 1024, "gradients": 2048, "optimizer": 4096, "activations": 512}  # GiB
LOG2_LIMIT = 12  # the axis ends at 4096 GiB, and starts at 1


def bar_gib(name: str, *, policy: str, ranks: int) -> int:
    """GiB of one bar: states divide by the ranks, activations by the policy.

    >>> bar_gib("weights", policy="none", ranks=8)
    128
    """
    if name == "activations":
        return TOTALS[name] // {"none": 1, "full": 32, "impossible": 1}[policy]
    return TOTALS[name] // ranks


def x_of(gib: int) -> float:
    """Where a size lies on the log2 axis."""
    return LEFT + (RIGHT - LEFT) * log2(gib) / LOG2_LIMIT


def draw(policy: str, ranks: str, ghost: str, selected: str) -> Scene:
    if policy == "impossible" and int(ranks) > 8:
        raise ValueError(f"No such plan: {ranks} ranks need a policy that exists.")
    sizes = {name: bar_gib(name, policy=policy, ranks=int(ranks)) for name in NAMES}
    marks: list[Mark] = [Text(16, 28, "Memory by category", bold=True, size=16, id="title")]
    for power in range(0, LOG2_LIMIT + 1, 4):
        x = x_of(2**power)
        marks.append(Line(x, TOP - 8, x, TOP + 4 * PITCH, "grid"))
        marks.append(
            Text(
                x,
                TOP + 4 * PITCH + 18,
                f"{2**power} GiB",
                "muted",
                12,
                "middle",
                id=f"tick-{power}",
            )
        )
    limit = x_of(64)
    marks.append(Line(limit, TOP - 8, limit, TOP + 4 * PITCH, "limit", dash=True, id="limit"))
    marks.append(Text(limit, TOP - 14, "64 GiB", "limit", 12, "middle", id="limit-label"))
    marks.append(Path(((564, 28), (600, 28), (600, 50)), "axis", arrow=True, id="arrow"))
    marks.append(Path(((612, 20), (628, 20), (620, 34)), "good", closed=True, id="flag"))
    for row, name in enumerate(NAMES):
        marks.append(_bar(row, name, sizes[name], ghost == "on", selected))
    total = sum(sizes.values())  # integers
    chosen = f" {selected} is selected." if selected else ""
    alt = f"Four bars of {', '.join(f'{name} {gib} GiB' for name, gib in sizes.items())}.{chosen}"
    return Scene(
        width=WIDTH,
        height=HEIGHT,
        marks=tuple(marks),
        alt=alt,
        status=f"Total {total} GiB.{chosen}",
        table=Table(
            ("category", "GiB"),
            (*((name, str(gib)) for name, gib in sizes.items()), ("total", str(total))),
        ),
    )


def _bar(row: int, name: str, gib: int, ghost: bool, selected: str) -> Group:
    y = TOP + row * PITCH + (PITCH - BAR) / 2
    end = x_of(gib)
    inside: list[Mark] = [Text(LEFT - 8, y + 18, name, size=13, anchor="end", id=f"name-{name}")]
    if ghost:
        before = x_of(TOTALS[name]) - LEFT
        inside.append(
            Rect(LEFT, y, before, BAR, "ghost", filled=False, outline="dashed", id=f"ghost-{name}")
        )
    inside.append(
        Rect(
            LEFT,
            y,
            end - LEFT,
            BAR,
            name,
            hatch=name == "optimizer",
            outline="solid" if selected == name else "",
            faint=selected not in ("", name),
            radius=3,
            id=f"bar-{name}",
            title=f"{name}: {gib} GiB",
        )
    )
    inside.append(Text(RIGHT + 8, y + 18, f"{gib} GiB", name, bold=True, id=f"value-{name}"))
    return Group(
        id=f"pick-{name}",
        marks=tuple(inside),
        knob="selected",
        value="" if selected == name else name,
        label=f"Select {name}",
        pressed=selected == name,
    )


FIGURE = Figure(
    name="demo",
    title="Four bars and a limit",
    knobs=(
        Choice(
            "policy",
            "Recompute",
            (("none", "nothing"), ("full", "everything"), ("impossible", "no such thing")),
            "none",
            hint="What is thrown away after the forward pass.",
        ),
        Powers("ranks", "Ranks", 1, 64, "8", hint="How many ranks share the states."),
        Switch("ghost", "Show before", "on"),
        Hidden("selected", "Selected category", ("", *NAMES)),
    ),
    draw=draw,
    caption="Invented sizes in GiB; states divide by the ranks.",
)
