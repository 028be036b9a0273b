"""The page's runtime with the demo figure in it, built once, and pages that use it."""

from __future__ import annotations

import functools
import shutil
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import demo_figure

from memmodel import figures

ROOT = Path(__file__).resolve().parent.parent
DEMO = Path(demo_figure.__file__)


@functools.cache
def builder() -> ModuleType:
    """The module that builds the bundle; it stands in no package."""
    spec = util.spec_from_file_location("live_build", ROOT / "book" / "_live" / "build.py")
    assert spec
    assert spec.loader
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def demo_bundle() -> Path:
    """The folder `live/` of a bundle that also knows the demo figure. Fails where node is missing.

    The same figure is registered here, so that both sides know it by the same name.
    """
    site: Path = builder().build(ROOT / "_build" / "live-demo", {"demo": DEMO})
    module = ModuleType("memmodel.figures.demo")
    module.FIGURES = {"demo": demo_figure.FIGURE}  # type: ignore[attr-defined]
    sys.modules["memmodel.figures.demo"] = module
    figures.MODULES["demo"] = "demo"
    return site / "live"


def write_page(folder: Path, body: str, *, theme: str = "light") -> Path:
    """A page with `body`, beside the demo bundle."""
    shutil.copytree(demo_bundle(), folder / "live", dirs_exist_ok=True)
    page = folder / "index.html"
    page.write_text(
        f'<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>A page</title>'
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="live/live.css?v=1">'
        '<script defer src="live/live.js?v=1"></script>'
        "<style>body { font-family: sans-serif; margin: auto; max-width: 760px; }</style>"
        f'<main><h1 id="top">A page</h1>{body}</main></html>',
        encoding="utf-8",
    )
    return page
