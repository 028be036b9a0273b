"""The command line: flags and plan files in, tables or JSON out; every mistake is one line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from memmodel import __version__, commands
from memmodel.configs import zoo_names
from memmodel.flags import LISTS, add_field
from memmodel.formats import OPTIMIZERS, RECIPES, SITES
from memmodel.inputs import one_line
from memmodel.plan import field_help
from memmodel.recompute import POLICIES
from memmodel.schedule import SCHEDULES

PROGRAM = "memmodel"
BLOCK_FIELDS = ("model", "recipe", "formats", "seq_len", "dual_stash")  # of a plan, for one block
POLICY_FIELDS = ("recompute", *LISTS)


class _Parser(argparse.ArgumentParser):
    """argparse, with a mistake reported as one line and no usage."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parser() -> argparse.ArgumentParser:
    top = _Parser(prog=PROGRAM, description="How much memory each GPU holds in training, and why.")
    top.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    subparsers = top.add_subparsers(
        dest="command", required=True, parser_class=_Parser,
        metavar="account | block | frontier | params | schedule",
    )  # fmt: skip

    def command(name: str, run: Callable[[argparse.Namespace], int], meaning: str,
                epilog: str | None = None) -> argparse.ArgumentParser:  # fmt: skip
        layout = argparse.RawDescriptionHelpFormatter
        added = subparsers.add_parser(
            name, help=meaning, description=meaning, epilog=epilog, formatter_class=layout
        )
        added.set_defaults(run=run)
        added.add_argument("--json", action="store_true", help="print one JSON document")
        return added

    optimizers = "\n".join(
        f"  {state.name:17} {state.weights}+{state.gradients}+{state.optimizer} = {state.total:2}  "
        f"{state.meaning}"
        for state in OPTIMIZERS.values()
    )
    found = command(
        "account", commands.run_account, "The memory of one GPU, line by line.",
        f"models: {', '.join(zoo_names())}\n\nformat sites: {', '.join(SITES)}\n\n"
        f"optimizers, bytes per parameter (weight + gradient + optimizer):\n{optimizers}",
    )  # fmt: skip
    found.add_argument("plan", nargs="?", metavar="PLAN.json", help="a plan; flags override it")
    found.add_argument("--rank", default="peak", metavar="N|peak|all",
                       help="which pipeline rank [default peak]")  # fmt: skip
    found.add_argument("--batch", metavar="PLANS.jsonl", help="one plan a line (- for standard "
                       "input) in, one JSON document a line out")  # fmt: skip
    for item in field_help():
        add_field(found, *item)

    found = command(
        "block", commands.run_block, "What one block keeps for its backward, tensor by tensor.",
        f"recipes: {', '.join(RECIPES)}; policies: {', '.join(POLICIES)}",
    )  # fmt: skip
    found.add_argument("--kind", metavar="moe|dense",
                       help="kind of block [default that of the model's last layer]")  # fmt: skip
    for item in field_help():
        if item[0] in (*BLOCK_FIELDS, *POLICY_FIELDS):
            add_field(found, *item)

    found = command(
        "frontier", commands.run_frontier, "All policies of one block, and the few that no other "
        "one beats.", f"recipes: {', '.join(RECIPES)}; policies judged: {', '.join(POLICIES)}",
    )  # fmt: skip
    found.add_argument("--kind", metavar="moe|dense",
                       help="kind of block [default that of the model's last layer]")  # fmt: skip
    found.add_argument("--replay-communication", action="store_true", help="let dispatch and "
                       "combine be replayed too [switch; default off]")  # fmt: skip
    found.add_argument("--budget-bytes-per-token", metavar="N", help="also the policy of least "
                       "replay that keeps at most so much [bytes; default none]")  # fmt: skip
    for item in field_help():
        if item[0] in BLOCK_FIELDS:
            add_field(found, *item)
    for name in POLICY_FIELDS:  # known, to be refused with a reason
        found.add_argument(f"--{name}", nargs="*", default=argparse.SUPPRESS,
                           help=argparse.SUPPRESS)  # fmt: skip

    found = command("params", commands.run_params, "The parameters of a model, by class.",
                    f"models: {', '.join(zoo_names())}, or the path of a config.json")  # fmt: skip
    found.add_argument("model", nargs="?", default="deepseek-v3", metavar="MODEL",
                       help="zoo name, or path of a config.json [default deepseek-v3]")  # fmt: skip

    found = command(
        "schedule", commands.run_schedule, "A pipeline schedule: its order, peaks and bubble.",
        f"schedules: {', '.join(SCHEDULES)}",
    )  # fmt: skip
    found.add_argument("name", metavar="NAME", help="one of those below")
    found.add_argument("--pp", required=True, metavar="P",
                       help="pipeline parallelism [degree; no default]")  # fmt: skip
    found.add_argument("--microbatches", required=True, metavar="M",
                       help="microbatches [per step and rank; no default]")  # fmt: skip
    found.add_argument("--virtual-stages", metavar="V", help="for interleaved [chunks per rank; "
                       "default 2 for V schedules, else 1]")  # fmt: skip
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (2 after a user's mistake)."""
    mistake = ""
    try:
        try:
            arguments = _parser().parse_args(argv)
            status: int = arguments.run(arguments)
        except ValueError as error:
            status, mistake = 2, one_line(error)
        except SystemExit as done:  # --help and --version
            status = int(done.code or 0)
        print(end="", flush=True)
    except BrokenPipeError:
        # The reader of a pipe has left (head, less): nothing more to say, and no traceback.
        status, mistake = 141, ""
        _drop_output()
    except OSError as error:
        status, mistake = 1, f"the output cannot be written ({error.strerror})"
        _drop_output()
    if mistake:
        print(f"{PROGRAM}: error: {mistake}", file=sys.stderr)
    return status


def _drop_output() -> None:
    """What is still buffered goes nowhere, or the interpreter would fail on it at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
