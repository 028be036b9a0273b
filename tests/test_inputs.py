"""Files and lines are read within bounds, and what is not one JSON object is refused in a line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memmodel.inputs import MOST_BYTES, as_text, parse_json_object, read_lines, read_text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty, one JSON object is needed"),
        (" \n\t", "empty"),
        ("{", "not JSON (line 1, column 2"),
        ('{"pp": 8', "not JSON"),
        ('{"pp": 8,}', "not JSON"),
        ('{"pp": 08}', "not JSON"),
        ("{'pp': 8}", "not JSON"),
        ('{"pp": 8} {}', "not JSON (line 1, column 11: Extra data"),
        ("\ufeff{}", "not JSON"),
        ("[]", "one JSON object is needed, not an array"),
        ("null", "not null"),
        ("8", "not a number"),
        ("true", "not true or false"),
        ('"pp"', "not a string"),
        ('{"pp": 8, "pp": 8}', "the key 'pp' stands twice"),
        ('{"formats": {"attn": "bf16", "attn": "bf16"}}', "the key 'attn' stands twice"),
        ('{"pp": NaN}', "NaN is not a number that JSON knows"),
        ('{"pp": Infinity}', "Infinity is not a number"),
        ('{"pp": -Infinity}', "-Infinity is not a number"),
        ('{"pp": ' + "9" * 5000 + "}", "a number of 5000 digits is out of every range"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
    ids=lambda text: text[:20],
)
def test_text_that_is_not_one_json_object(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"^p: ") as caught:
        parse_json_object(text, "p")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, complaint in (
        (tmp_path / "none", "cannot be read (No such file or directory)"),
        (tmp_path, "cannot be read (Is a directory)"),
        (Path("x" * 5000), "cannot be read (File name too long)"),
        (Path("a\0b"), "cannot be read (not a file name)"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"p: {complaint}")):
            read_text(path, "p")
    latin = tmp_path / "latin"
    latin.write_bytes('{"modèle": 1}'.encode("latin-1"))
    with pytest.raises(ValueError, match="p: not UTF-8 text"):
        read_text(latin, "p")
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(3 * MOST_BYTES)
    with pytest.raises(ValueError, match=f"p: more than {MOST_BYTES} bytes"):
        read_text(huge, "p")


def test_of_a_line_without_end_only_the_beginning_is_read(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with path.open("wb") as file:
        file.write(b"{}\n")
        file.seek(3 * MOST_BYTES)
        file.write(b"\n{}\r\n\nlast")
    lines = list(read_lines(str(path)))
    assert [len(line) for line in lines] == [3, MOST_BYTES + 1, 4, 1, 4]
    with pytest.raises(ValueError, match="more than"):
        as_text(lines[1], "line 2")
