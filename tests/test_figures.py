"""Every figure of the book in its states: geometry, and widths that equal the ledger's bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from geometry import bar_width, by_id, check_figure, states

from memmodel.figures import MODULES, bars, counting, get, sharding
from memmodel.ledger import rank_ledger
from memmodel.scene import Rect, Text


@pytest.mark.parametrize("name", sorted(MODULES))
def test_geometry_of_every_state(name: str) -> None:
    assert check_figure(get(name)) >= 2
