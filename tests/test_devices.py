"""What GPUs give, and that fits and slack use different sizes of it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from memmodel.devices import DEVICES, device


def test_the_h100_of_the_reality_chapter() -> None:
    # 80 GiB yardstick, 79.65 GiB reported, 79.10 GiB usable by PyTorch.
    h100 = device("h100")
    assert h100.nominal_bytes == 80 * 2**30
    assert round(h100.reported_mib / 1024, 2) == 79.65
    assert h100.usable_bytes == int(Fraction(7910, 100) * 2**30)
    assert h100.usable_bytes == 84_932_978_278  # rounded down to whole bytes


@pytest.mark.parametrize("name", ["h100", "h200", "b200", "a100-80", "mi300x"])
def test_the_devices_that_were_asked_for(name: str) -> None:
    assert device(name).name == name


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_gives_less_than_it_reports_and_has_a_source(name: str) -> None:
    found = device(name)
    assert 0 < found.usable_bytes < found.reported_mib * 2**20
    assert isinstance(found.usable_bytes, int)
    assert isinstance(found.nominal_bytes, int)
    # Data sheets say GB and mean anything from 10**9 to 2**30 bytes: within 8 % of the yardstick.
    assert 0.92 < found.usable_bytes / found.nominal_bytes < 1
    assert found.source
    assert found.fp8_tflops is None or found.fp8_tflops > 1.9 * found.bf16_tflops


def test_an_unknown_device_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="device 'h101': known are h100, h800, h200"):
        device("h101")
