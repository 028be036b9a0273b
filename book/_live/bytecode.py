"""Runs inside the page's runtime at build time: what the figures import, and its bytecode."""

from __future__ import annotations

import importlib
import json
import marshal
import sys
import types
from base64 import b64encode

NOT_OURS = {"base64", "binascii", "bytecode"}  # imported by this module alone


def compiled(_: object = None) -> str:
    """Draw every figure, each knob turned alone; return the loaded modules as JSON.

    `{path of a .pyc file: its bytes in base64}`, for the standard library and the package.
    """
    from memmodel import figures, live

    for name in figures.MODULES:
        for knob in figures.get(name).knobs:
            for value in knob.values():
                request = {"figure": name, "uid": "x", "state": {knob.name: value}}
                live.draw(json.dumps(request))
    found = {}
    for name, module in sorted(sys.modules.items()):
        if isinstance(module, types.ModuleType) and name not in NOT_OURS and name != "__main__":
            found.update(_bytecode(name))
    return json.dumps(found)


def _bytecode(name: str) -> dict[str, str]:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.has_location or spec.origin is None:
        return {}
    source = spec.loader.get_source(name)
    path = name.replace(".", "/") + ("/__init__" if spec.submodule_search_locations else "")
    ours = name.partition(".")[0] == "memmodel"
    # The package keeps its docstrings and checks; the library loses its docstrings (-OO).
    code = compile(source, f"{path}.py", "exec", dont_inherit=True, optimize=0 if ours else 2)
    head = importlib.util.MAGIC_NUMBER + bytes(12)
    return {f"{path}.pyc": b64encode(head + marshal.dumps(code)).decode()}
