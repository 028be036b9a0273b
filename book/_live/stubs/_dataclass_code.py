"""Code of the methods that dataclasses write for themselves, compiled once and for all.

Compiling takes most of the time that the package needs to load in a page. So the build collects
what is compiled while all figures are drawn, and ships this module with the result in `CODE`.
"""

from types import CodeType

CODE: dict[str, CodeType] = {}


def code(text: str) -> CodeType:
    """Return the code of `text`, as `exec` would compile it."""
    if text not in CODE:
        CODE[text] = compile(text, "<string>", "exec", dont_inherit=True)
    return CODE[text]
