"""What users hand in, read strictly: files within bounds, one JSON object, nothing in silence.

Every mistake is a ValueError of one line that names the source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 2**24  # of a plan or a config, which have a few hundred
MOST_DIGITS = 400  # of a number: more than any float has
MOST_TEXT = 600  # characters of a message, which may quote what was given

_KINDS = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}


def parse_json_object(text: str, source: str) -> dict[str, object]:
    """One JSON object: no duplicate keys, no NaN or infinity, no endless numbers.

    >>> parse_json_object('{"pp": 8, "pp": 16}', "plan.json")
    Traceback (most recent call last):
    ValueError: plan.json: the key 'pp' stands twice
    """

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"{source}: the key {key!r} stands twice")
            found[key] = value
        return found

    def refuse(constant: str) -> object:
        raise ValueError(f"{source}: {constant} is not a number that JSON knows")

    def integer(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            raise ValueError(f"{source}: a number of {len(digits)} digits is out of every range")
        return int(digits)

    if not text.strip():
        raise ValueError(f"{source}: empty, one JSON object is needed")
    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse, parse_int=integer)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{source}: not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
        ) from None
    except RecursionError:
        raise ValueError(f"{source}: nested too deeply") from None
    if not isinstance(value, dict):
        kind = _KINDS.get(type(value), "a number")
        raise ValueError(f"{source}: one JSON object is needed, not {kind}")
    return value


def read_text(path: Path, source: str) -> str:
    """The UTF-8 text of a file of at most MOST_BYTES."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(source, error) from None
    return as_text(content, source)


def as_text(content: bytes, source: str) -> str:
    """Bytes as UTF-8 text, at most MOST_BYTES of them."""
    if len(content) > MOST_BYTES:
        raise ValueError(f"{source}: more than {MOST_BYTES} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{source}: not UTF-8 text") from None


def read_lines(name: str) -> Iterator[bytes]:
    """The lines of a file, or of standard input for "-", one at a time as they come.

    Of a line that is too long for `as_text` only the beginning is handed out, still too long.
    """
    try:
        with open(0 if name == "-" else name, "rb", closefd=name != "-") as file:
            while line := file.readline(MOST_BYTES + 1):
                yield line
                while len(line) > MOST_BYTES and not line.endswith(b"\n"):
                    line = file.readline(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None


def _unreadable(source: str, error: OSError | ValueError) -> ValueError:
    # open raises a bare ValueError for what no file can be called.
    reason = error.strerror if isinstance(error, OSError) else "not a file name"
    return ValueError(f"{source}: cannot be read ({reason})")


def one_line(mistake: object) -> str:
    r"""A mistake as one line of bounded length that any terminal can print.

    >>> one_line(ValueError("pp:\n  no text: \udcff"))
    'pp: no text: \\udcff'
    """
    text = str(mistake).encode("utf-8", "backslashreplace").decode()
    line = " ".join(text.split())
    return line if len(line) <= MOST_TEXT else line[: MOST_TEXT - 4] + " ..."
