"""Plan fields as command-line flags: each with its unit and default, read back as JSON values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from memmodel.inputs import MOST_DIGITS, parse_json_object
from memmodel.plan import FieldHelp, field_help

LISTS = ("replay", "save")


def number(text: str) -> object:
    """A flag's number as JSON would read it; any other text stays text, for the plan to refuse."""
    if len(text) > MOST_DIGITS:
        return text
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    return text


def _names(values: Sequence[str]) -> list[str]:
    return [name for value in values for name in re.split(r"[\s,]+", value) if name]


def add_field(parser: argparse.ArgumentParser, item: FieldHelp) -> None:
    """One plan field as a flag; absent flags leave no trace, so that a file's value stands."""
    flag = f"--{item.name.replace('_', '-')}"
    options: dict[str, Any] = {
        "dest": item.name,
        "default": argparse.SUPPRESS,
        "help": f"{item.meaning} [{item.unit}; default {item.shown}]",
    }
    if isinstance(item.default, bool):
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
    elif item.name in LISTS:
        parser.add_argument(flag, nargs="*", metavar="OP", action="extend", **options)
    else:
        parser.add_argument(flag, metavar="VALUE", **options)


def field_values(arguments: argparse.Namespace) -> dict[str, object]:
    """The plan fields that were given as flags, as JSON values."""
    given: dict[str, object] = {}
    for name, default, *_ in field_help():
        if not hasattr(arguments, name):
            continue
        value = getattr(arguments, name)
        if name in LISTS:
            given[name] = _names(value)
        elif name == "formats":
            given[name] = parse_json_object(value, "--formats")
        elif default is None or type(default) in (int, float):
            given[name] = number(value)
        else:
            given[name] = value
    return given
