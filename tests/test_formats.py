"""Bytes of rows in every format, recipes, optimizer states, and how sizes are printed."""

from __future__ import annotations

import re
from fractions import Fraction

import bruteforce
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memmodel.formats import (
    BF16,
    E4M3,
    E5M6,
    FORMATS,
    FP8_WEIGHT_BYTES,
    FP32,
    MXFP8,
    OPTIMIZERS,
    RECIPES,
    SITES,
    number_text,
    recipe,
    size_text,
)


def test_bytes_per_element_of_whole_tiles() -> None:
    width = 7168
    assert FP32.nbytes(width) == 4 * width
    assert BF16.nbytes(width) == 2 * width
    assert E4M3.nbytes(width) == width * (1 + Fraction(4, 128))
    assert MXFP8.nbytes(width) == width * (1 + Fraction(1, 32))
    assert E5M6.nbytes(width) == width * Fraction(3, 2)


@given(fmt=st.sampled_from(sorted(FORMATS)), width=st.integers(1, 100_000))
def test_rows_fill_up_their_last_tile(fmt: str, width: int) -> None:
    assert FORMATS[fmt].nbytes(width) == bruteforce.width_bytes(fmt, width)


@pytest.mark.parametrize(
    ("fmt", "width", "nbytes"),
    [
        ("e4m3", 1, 132),
        ("e4m3", 128, 132),
        ("e4m3", 129, 264),
        ("mxfp8", 1, 33),
        ("mxfp8", 33, 66),
        ("e5m6", 1, 2),
        ("bf16", 1, 2),
        ("fp32", 1, 4),
    ],
)
def test_single_widths(fmt: str, width: int, nbytes: int) -> None:
    assert FORMATS[fmt].nbytes(width) == nbytes


@pytest.mark.parametrize("name", bruteforce.RECIPES)
def test_recipes_are_those_of_the_table(name: str) -> None:
    # Written down a second time in bruteforce.py.
    found = recipe(name)
    for site in SITES:
        assert found.at(site).name == bruteforce.RECIPES[name].get(site, "bf16"), site
    assert found.at("bf16") is BF16
    assert found.at("fp32") is FP32
    assert set(RECIPES) == set(bruteforce.RECIPES)


def test_the_sites_are_those_of_the_contract() -> None:
    contract = "qkv_down q_up kv_up attn o_proj router gate_up ffn_down swiglu_in"
    assert tuple(contract.split()) == SITES


@given(
    name=st.sampled_from(sorted(RECIPES)),
    site=st.sampled_from(SITES),
    fmt=st.sampled_from(sorted(FORMATS)),
)
def test_any_site_takes_any_format_and_o_proj_alone_e5m6(name: str, site: str, fmt: str) -> None:
    if fmt == "e5m6" and site != "o_proj":
        with pytest.raises(ValueError, match="only o_proj may be stored as e5m6"):
            recipe(name, {site: fmt})
        return
    found = recipe(name, {site: fmt})
    assert found.at(site).name == fmt
    for other in set(SITES) - {site}:
        assert found.at(other) is recipe(name).at(other)


@pytest.mark.parametrize(
    ("name", "formats", "complaint"),
    [
        ("fp4", {}, "recipe 'fp4': known are bf16, dsv3-fp8, all-fp8, nv-mxfp8"),
        ("bf16", {"o-proj": "bf16"}, "formats: no site 'o-proj', known are qkv_down, q_up"),
        ("bf16", {"o_proj": "fp8"}, "formats: o_proj = 'fp8', known are fp32, bf16, e4m3"),
        ("bf16", {"bf16": "fp32"}, "formats: no site 'bf16'"),
    ],
)
def test_unknown_names_are_refused(name: str, formats: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        recipe(name, formats)


def test_fp8_gemms_are_fast_and_nothing_else_is() -> None:
    # e4m3, mxfp8, and o_proj under e5m6 count half.
    assert {fmt.name for fmt in FORMATS.values() if fmt.fast} == {"e4m3", "mxfp8", "e5m6"}


def test_optimizers_are_those_of_the_contract() -> None:
    contract = {
        "bf16-moments": "2+4+8",
        "mixed": "2+2+12",
        "mixed-fp32-grads": "2+4+12",
        "mixed-both-grads": "2+6+12",
        "pure-bf16-adam": "2+2+4",
        "no-master": "2+2+8",
        "fp32": "4+4+8",
    }
    assert {
        name: f"{state.weights}+{state.gradients}+{state.optimizer}"
        for name, state in OPTIMIZERS.items()
    } == contract
    assert [state.total for state in OPTIMIZERS.values()] == [14, 16, 18, 20, 8, 12, 16]
    for state in OPTIMIZERS.values():
        assert state.master == (4 if "fp32 master" in state.meaning else 0)


def test_an_fp8_resident_weight_is_slightly_worse_than_bf16() -> None:
    # Both orientations, with a scale per 128 elements.
    assert Fraction(33, 16) == FP8_WEIGHT_BYTES
    assert 2 * Fraction(E4M3.nbytes(128), 128) == FP8_WEIGHT_BYTES


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (-1024, "-1.0 KiB"),
        (66_296_545_344, "61.7 GiB"),
        (9_510_443_889_664, "8.65 TiB"),
        (2**40, "1.00 TiB"),
        (2**40 - 1, "1.00 TiB"),
        (2**50, "1.00 PiB"),
        (2**30 - 1, "1.0 GiB"),
        (Fraction(1, 3), "0.3 B"),
        (Fraction(2**31, 1), "2.0 GiB"),
        (2**70, "1,024.00 EiB"),
    ],
)
def test_sizes_are_binary_with_one_decimal_and_two_from_tib(nbytes: int, text: str) -> None:
    # Never "1024.0 MiB".
    assert size_text(nbytes) == text


@given(st.integers(0, 2**80))
def test_a_printed_size_is_within_half_a_digit(nbytes: int) -> None:
    number, unit = size_text(nbytes).split()
    value = Fraction(number.replace(",", ""))
    power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(unit)
    half = Fraction(1, 200 if power >= 4 else 20) if power else Fraction(0)
    # The conversion to a float before printing may move a tie.
    assert abs(Fraction(nbytes, 1024**power) - value) <= half * (1 + Fraction(1, 10**6))
    assert value < 1024 or unit == "EiB"


def test_counts_are_exact_with_separators() -> None:
    assert number_text(671_026_419_200) == "671,026,419,200"
    assert number_text(Fraction(33, 16)) == "2.0625"
    assert number_text(Fraction(8, 2)) == "4"
    assert number_text(Fraction(1, 100_000)) == "1e-05"
    assert number_text(Fraction("1234.56789")) == "1,234.56789"
    assert number_text(Fraction(20_000, 3)) == "6,666.6667"
