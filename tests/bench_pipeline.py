"""Times redraws of the pipeline figures, here and in the page's own Python; asserts nothing.

A redraw is what a change of one control costs in Python: scene, SVG text, table and words.
"""

from __future__ import annotations

import json
import shutil
import time
from itertools import pairwise
from statistics import median

from bundle import builder, demo_bundle

from memmodel import live

STATES: dict[str, list[dict[str, str]]] = {
    "schedule, another rank": [{"rank": str(rank)} for rank in range(8)],
    "schedule, another stash": [{"stash": f"0.{microbatch}"} for microbatch in range(20)],
    "schedule, another schedule": [
        {"schedule": name} for name in ("gpipe", "1f1b", "interleaved", "zb1p", "zbv", "dualpipe")
    ],
    "schedule, zoomed and moved": [{"zoom": "4", "at": str(at)} for at in range(0, 90, 6)],
    "schedule, 16 ranks and 64 microbatches": [
        {"ranks": "16", "microbatches": "64", "rank": str(rank)} for rank in range(16)
    ],
    "fold, another rank": [{"rank": str(rank)} for rank in range(8)],
    "step-memory, another rank": [{"rank": str(rank)} for rank in range(8)],
    "pareto, another policy": [{"recompute": policy} for policy in ("none", "selective", "full")],
}


def request(label: str, state: dict[str, str]) -> str:
    """What the page asks for."""
    figure = label.partition(",")[0]
    return json.dumps({"figure": figure, "uid": "u", "fixed": {}, "state": state})


def here_ms(requests: list[str]) -> list[float]:
    """Milliseconds of each redraw in this Python."""
    taken = []
    for each in requests:
        start = time.perf_counter()
        live.draw(each)
        taken.append((time.perf_counter() - start) * 1e3)
    return taken


def page_ms(requests: list[str]) -> list[float]:
    """Milliseconds of each redraw in the page's Python, run under node, with its transfer."""
    clock = ("time", "clock_gettime", time.CLOCK_MONOTONIC)
    calls: list[tuple[str, str, object]] = [clock]
    for each in requests:
        calls += [("memmodel.live", "draw", each), clock]
    times = builder().ask(demo_bundle(), calls)[::2]
    return [(after - before) * 1e3 for before, after in pairwise(times)]


def report() -> None:
    """Print one line a kind of change; the first redraw fills caches and is left out."""
    for label, states in STATES.items():
        requests = [request(label, state) for state in (states[-1], *states)]
        words = f"here {median(here_ms(requests)[1:]):.1f} ms"
        if shutil.which("node"):
            taken = page_ms(requests)[1:]
            words += f", in the page {median(taken):.1f} ms, worst {max(taken):.1f} (aim: 30)"
        print(f"redraw of {label}: {words}")


if __name__ == "__main__":
    report()
