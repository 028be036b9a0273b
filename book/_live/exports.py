"""Cut from the interpreter what only other compiled modules would ask it for.

Pyodide exports every function of CPython, thousands of them, so that extension modules can be
linked to it while it runs. A page loads none. Each export still costs: a name, a wrapper, an entry
in three tables. Kept is what the JavaScript side uses and what the module asks of itself.
"""

from __future__ import annotations

import re
from collections import Counter

IMPORT, EXPORT = 2, 7  # section numbers of the WebAssembly format
FUNCTION, TABLE, MEMORY, GLOBAL, TAG = range(5)  # kinds of imports and exports
ASSIGNMENT = re.compile(r'(\w+)=(?:Module\["\w+"\]=)?wasmExports\["(\w+)"\];')


def cut(wasm: bytes, script: str) -> tuple[bytes, str]:
    """Return the module and its JavaScript side without the exports that nothing uses."""
    rest = ASSIGNMENT.sub("", script)
    words = Counter(re.findall(r"\w+", rest))
    kept = _linked(wasm)
    for variable, name in ASSIGNMENT.findall(script):
        if words[variable] > 1 or words[name]:  # once is its declaration
            kept.add(name)
    kept |= {name for name in _names(wasm) if words[name]}
    return _filter(wasm, kept), ASSIGNMENT.sub(
        lambda found: found[0] if found[2] in kept else "", script
    )


def _number(wasm: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned LEB128 number; return it and where it ends."""
    value = shift = 0
    while True:
        byte = wasm[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _leb(value: int) -> bytes:
    coded = bytearray()
    while value > 127:
        coded.append(value & 127 | 128)
        value >>= 7
    return bytes([*coded, value])


def _text(wasm: bytes, at: int) -> tuple[str, int]:
    length, at = _number(wasm, at)
    return wasm[at : at + length].decode(), at + length


def _sections(wasm: bytes) -> list[tuple[int, int, int, int]]:
    """Return (number, start, start of the content, end) of each section."""
    found, at = [], 8  # after the magic number and the version
    while at < len(wasm):
        length, content = _number(wasm, at + 1)
        found.append((wasm[at], at, content, content + length))
        at = content + length
    return found


def _linked(wasm: bytes) -> set[str]:
    """Return the names that the module imports, its own through the offset tables included."""
    [(_, _, at, _)] = [section for section in _sections(wasm) if section[0] == IMPORT]
    count, at = _number(wasm, at)
    found = set()
    for _ in range(count):
        _, at = _text(wasm, at)
        name, at = _text(wasm, at)
        found.add(name)
        kind, at = wasm[at], at + 1
        if kind == GLOBAL:
            at += 2  # its type, and whether it changes
        elif kind in {TABLE, MEMORY}:
            at += kind == TABLE
            flags, at = _number(wasm, at)
            for _ in range(1 + (flags & 1)):
                _, at = _number(wasm, at)
        else:
            at += kind == TAG
            _, at = _number(wasm, at)
    return found


def _exports(wasm: bytes) -> list[tuple[str, bytes]]:
    """Return the name and the coded form of each export."""
    [(_, _, at, _)] = [section for section in _sections(wasm) if section[0] == EXPORT]
    count, at = _number(wasm, at)
    found = []
    for _ in range(count):
        start = at
        name, at = _text(wasm, at)
        _, at = _number(wasm, at + 1)
        found.append((name, wasm[start:at]))
    return found


def _names(wasm: bytes) -> list[str]:
    return [name for name, _ in _exports(wasm)]


def _filter(wasm: bytes, kept: set[str]) -> bytes:
    left = [coded for name, coded in _exports(wasm) if name in kept]
    content = _leb(len(left)) + b"".join(left)
    [(_, start, _, end)] = [section for section in _sections(wasm) if section[0] == EXPORT]
    return wasm[:start] + bytes([EXPORT]) + _leb(len(content)) + content + wasm[end:]
