"""Runs inside the page's runtime at build time: what the figures import, and its bytecode."""

from __future__ import annotations

import ast
import importlib
import json
import marshal
import sys
import types
from base64 import b64encode

import _dataclass_code

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
    path = name.replace(".", "/") + ("/__init__" if spec.submodule_search_locations else "")
    source = spec.loader.get_source(name)
    if name == "_dataclass_code":
        collected = marshal.dumps(dict(sorted(_dataclass_code.CODE.items())))
        source += f"\n\nfrom marshal import loads\nCODE.update(loads({collected!r}))\n"
    tree = ast.parse(source)
    # The library is compiled as by -OO. The package keeps its checks, and the docstrings of its
    # classes, in whose place a dataclass would put one that takes long to make.
    ours = name.partition(".")[0] == "memmodel"
    if ours:
        _drop_docstrings(tree)
    code = compile(tree, f"{path}.py", "exec", dont_inherit=True, optimize=0 if ours else 2)
    head = importlib.util.MAGIC_NUMBER + bytes(12)
    return {f"{path}.pyc": b64encode(head + marshal.dumps(code)).decode()}


def _drop_docstrings(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
