"""The pictures of chapters 1 and 2: geometry in every state, and widths that are the ledger's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import log2

import pytest
from geometry import bar_width, by_id, check_figure, states

from memmodel.figures import MODULES, bars, counting, get, sharding
from memmodel.formats import Number, size_text
from memmodel.ledger import STATES, rank_ledger
from memmodel.scene import Rect, Scene, Text

CHAPTERS = sorted(name for name, module in MODULES.items() if module in ("counting", "sharding"))
OCTAVE = (bars.RIGHT - bars.LEFT) / (bars.HIGH - bars.LOW)


@pytest.mark.parametrize("name", CHAPTERS)
def test_geometry_of_every_state(name: str) -> None:
    assert check_figure(get(name)) >= 2


def assert_bar(scene: Scene, part: str, size: Number, kind: str = "bar") -> None:
    """The bar ends where its size stands on the axis: one octave for each factor of two."""
    octaves = min(max(log2(size) - bars.LOW, 0.0), bars.HIGH - bars.LOW)
    assert bar_width(scene, f"{kind}-{part}") == pytest.approx(octaves * OCTAVE)
    if kind == "bar":
        value = by_id(scene, f"value-{part}")
        assert isinstance(value, Text)
        assert value.text == size_text(size)


@pytest.mark.parametrize("state", states(get("naive-count")), ids=str)
def test_bars_of_the_naive_count_are_the_ledger(state: dict[str, str]) -> None:
    scene = get("naive-count").scene(**state)
    sizes = counting.naive_sizes(state["books"])
    order = (*STATES, "activations")
    visible = order[: order.index(state["shown"]) + 1]
    for category in visible:
        assert_bar(scene, category, sum(sizes[category].values()))
        for part, size in sizes[category].items():
            if size:
                assert_bar(scene, f"{category}-{part}", size)
    assert_bar(scene, "total", sum(sum(sizes[category].values()) for category in visible))


def test_all_three_conventions_start_from_the_same_ledger() -> None:
    """The first two book the same bytes under other names; the third holds two per parameter less.

    Source: the conventions of ZeRO (DeepSpeed) and of FSDP's `reshard_after_forward`.
    """
    totals = {
        books: sum(sum(parts.values()) for parts in counting.naive_sizes(books).values())
        for books in ("zero", "fsdp", "fsdp-reshard")
    }
    ledger = rank_ledger(counting.NAIVE, 0)
    assert totals["zero"] == totals["fsdp"] == ledger.total == 9_510_443_889_664
    assert totals["zero"] - totals["fsdp-reshard"] == ledger.totals["weights"]
    assert sum(counting.naive_sizes("fsdp")["weights"].values()) == 3 * ledger.totals["weights"]


def test_buckets_partition_the_activations() -> None:
    """Every kept tensor of both kinds of layer is in one bucket, so their sum is the ledger's."""
    ledger = rank_ledger(counting.NAIVE, 0)
    assert (
        sum(counting.activation_buckets(counting.NAIVE, ledger).values())
        == (ledger.totals["activations"])
    )
    named = [tensor for tensors in counting.BUCKETS.values() for tensor in tensors]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("kind", ["moe", "dense"])
def test_the_tally_is_linear_and_adds_up(kind: str) -> None:
    scene = get("activation-tally").scene(kind=kind)
    kept = counting.NAIVE.stashes[kind].tensors
    per_byte = (counting.RIGHT - counting.LEFT) / (counting.AXIS_KIB * 1024)
    rstd = sum(size for name, size in kept.items() if name.startswith("rstd"))
    drawn = {name: size for name, size in kept.items() if not name.startswith("rstd")}
    for label, size in (drawn | {"rstd of the norms": rstd}).items():
        assert bar_width(scene, f"bar-{label}") == pytest.approx(size * per_byte)
    parts = [Fraction(row[1].replace(",", "")) for row in scene.table.rows if row[0][0] == " "]
    assert sum(parts) == counting.NAIVE.stashes[kind].bytes_per_token


@pytest.mark.parametrize(("ep", "zero"), [("1", "0"), ("64", "1"), ("256", "3"), ("8", "2")])
def test_bars_and_ghosts_of_the_levers(ep: str, zero: str) -> None:
    scene = get("levers").scene(ep=ep, zero=zero)
    plan = replace(counting.NAIVE, ep=int(ep), zero=int(zero))
    before, after = sharding.lever_sizes(counting.NAIVE), sharding.lever_sizes(plan)
    for state in STATES:
        for part in counting.GROUPS:
            was, now = before[state][part], after[state][part]
            assert_bar(scene, f"{state}-{part}", now)
            if was != now:
                assert_bar(scene, f"{state}-{part}", was, kind="ghost")
    assert_bar(scene, "total", rank_ledger(plan, 0).total)


def test_ep_64_wins_24_and_a_half_on_the_weights() -> None:
    """Not all parameters shard: 1,342,052,838,400 / 54,669,945,856 (reference: fit steps 2, 3)."""
    won = by_id(get("levers").scene(ep="64", zero="1"), "value-won-weights")
    assert isinstance(won, Text)
    assert won.text == "÷24.5"


@pytest.mark.parametrize("ep", ["1", "8", "64", "256"])
def test_one_column_of_the_grid_holds_the_same_experts(ep: str) -> None:
    scene = get("replica-groups").scene(ep=ep)
    assert bar_width(scene, "group") == pytest.approx(bar_width(scene, "all") / int(ep))


def test_a_corrupted_bar_is_noticed() -> None:
    """The checks above read the picture: a bar one unit longer fails them."""
    scene = get("levers").scene()
    marks = tuple(
        replace(mark, width=mark.width + 1)
        if isinstance(mark, Rect) and mark.id == "bar-total"
        else mark
        for mark in scene.marks
    )
    with pytest.raises(AssertionError):
        assert_bar(replace(scene, marks=marks), "total", 282_705_055_382)
