"""Times the accounting and the start of the command line; prints the figures, asserts nothing.

Each figure is the best of several runs, and calls are timed by the processor's own clock: a machine
that does other things too disturbs that least.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from memmodel import recompute, schedule
from memmodel.ledger import account, rank_ledger
from memmodel.plan import Plan

ROOT = Path(__file__).resolve().parent.parent


def machine() -> str:
    """The processor, the number of cores, Python and the day."""
    name = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = names[0].partition(":")[2].strip() if names else name
    today = datetime.now(tz=UTC).date()
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}, {today}"


def best_us(work: Callable[[], object], times: int, rounds: int = 9) -> float:
    """Microseconds of the processor for one call, in the best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(times):
            work()
        best = min(best, (time.process_time() - start) / times)
    return best * 1e6


def forget() -> None:
    """Empty every cache between a plan and its ledger."""
    for module in (recompute, schedule):
        for item in vars(module).values():
            if hasattr(item, "cache_clear"):
                item.cache_clear()


def uncached(**changes: int) -> float:
    """Milliseconds from the fields of a plan to the ledgers of all its ranks, nothing cached."""

    def work() -> None:
        forget()
        _ = account(Plan(**changes)).peak.total  # type: ignore[arg-type]

    return best_us(work, times=1) / 1e3


def best_process_ms(*arguments: str, times: int = 15) -> float:
    """Milliseconds of a Python process with these arguments, its start included."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def main() -> None:
    """Print one line a figure."""
    plan = Plan()
    peak = account(plan).peak.rank
    print(machine())
    for label, figure, unit, aim in (
        (
            "ledger of the peak rank, stash cached",
            best_us(lambda: rank_ledger(plan, peak), 500),
            "us",
            "under 100 us",
        ),
        ("the same with its total", best_us(lambda: rank_ledger(plan, peak).total, 500), "us", ""),
        (
            "ledger of rank 0, with its total",
            best_us(lambda: rank_ledger(plan, 0).total, 500),
            "us",
            "",
        ),
        ("ledgers of all 8 ranks", best_us(lambda: account(plan).peak.total, 50), "us", ""),
        (
            "a new plan, checked, and all its ledgers",
            best_us(lambda: account(Plan()).peak.total, 50),
            "us",
            "",
        ),
        ("all ledgers of the default plan, uncached", uncached(), "ms", ""),
        (
            "all ledgers at pp 16, 64 microbatches, uncached",
            uncached(pp=16, microbatches=64),
            "ms",
            "under 5 ms",
        ),
        (
            "all ledgers at pp 16, 1024 microbatches, uncached",
            uncached(pp=16, microbatches=1024),
            "ms",
            "",
        ),
        ("an empty Python process", best_process_ms("-c", "pass"), "ms", ""),
        ("import memmodel", best_process_ms("-c", "import memmodel"), "ms", ""),
        ("memmodel account", best_process_ms("-m", "memmodel", "account"), "ms", "under 150 ms"),
        (
            "memmodel account --rank all --json",
            best_process_ms("-m", "memmodel", "account", "--rank", "all", "--json"),
            "ms",
            "",
        ),
    ):
        print(f"{label:50} {figure:8.1f} {unit}" + (f"  (aim: {aim})" if aim else ""))


if __name__ == "__main__":
    main()
