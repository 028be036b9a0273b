"""The command line: flags and plan files in, tables or JSON out; every mistake is one line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Any, NoReturn

from memmodel import __version__, commands, report
from memmodel.configs import zoo_names
from memmodel.devices import DEVICES
from memmodel.flags import LISTS, add_field
from memmodel.formats import OPTIMIZERS, SITES, size_text
from memmodel.inputs import one_line
from memmodel.plan import field_help
from memmodel.recompute import POLICIES
from memmodel.schedule import SCHEDULES
from memmodel.tables import gib

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
    subparsers = top.add_subparsers(dest="command", required=True, metavar=" | ".join(COMMANDS))
    for name, (run, add_arguments, meaning) in COMMANDS.items():
        added = subparsers.add_parser(
            name,
            help=meaning,
            description=meaning,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(run=run)
        added.add_argument("--json", action="store_true", help="print one JSON document")
        add_arguments(added)
    return top


def _account_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", nargs="?", metavar="PLAN.json", help="a plan; flags override it")
    parser.add_argument(
        "--rank", default="peak", metavar="N|peak|all", help="which pipeline rank [default peak]"
    )
    parser.add_argument(
        "--batch",
        metavar="PLANS.jsonl",
        help="one plan a line (- for standard input) in, one JSON document a line out",
    )
    for item in field_help():
        add_field(parser, item)
    gpus = [
        [
            f"  {gpu.name}",
            size_text(gpu.nominal_bytes),
            f"{gib(gpu.usable_bytes)} usable",
            gpu.title,
        ]
        for gpu in DEVICES.values()
    ]
    optimizers = [
        [
            f"  {state.name}",
            f"{state.weights}+{state.gradients}+{state.optimizer}",
            f"= {state.total:2}",
            state.meaning,
        ]
        for state in OPTIMIZERS.values()
    ]
    parser.epilog = (
        f"models: {', '.join(zoo_names())}\n\nformat sites: {', '.join(SITES)}\n\n"
        f"devices, nominal memory (the yardstick of slack) and what is usable of it:\n"
        f"{report.table(gpus, right=(1, 2))}\n\n"
        f"optimizers, bytes per parameter (weight + gradient + optimizer):\n"
        f"{report.table(optimizers)}"
    )


def _block_arguments(parser: argparse.ArgumentParser) -> None:
    _add_kind_and_fields(parser, (*BLOCK_FIELDS, *POLICY_FIELDS))
    parser.epilog = f"format sites: {', '.join(SITES)}"


def _frontier_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replay-communication",
        action="store_true",
        help="let dispatch and combine be replayed too [switch; default off]",
    )
    parser.add_argument(
        "--budget-bytes-per-token",
        metavar="N",
        help="also the policy of least replay that keeps at most so much [bytes; default none]",
    )
    _add_kind_and_fields(parser, BLOCK_FIELDS)
    for name in POLICY_FIELDS:  # known, to be refused with a reason
        parser.add_argument(
            f"--{name}", nargs="*", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    parser.epilog = f"format sites: {', '.join(SITES)}\n\npolicies judged: {', '.join(POLICIES)}"


def _add_kind_and_fields(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    parser.add_argument(
        "--kind",
        metavar="moe|dense",
        help="kind of block [name; default that of the model's last layer]",
    )
    for item in field_help():
        if item.name in names:
            add_field(parser, item)


def _params_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        default="deepseek-v3",
        metavar="MODEL",
        help="zoo name, or path of a config.json [default deepseek-v3]",
    )
    parser.epilog = f"models: {', '.join(zoo_names())}"


def _schedule_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="one of those below")
    parser.add_argument(
        "--pp", required=True, metavar="P", help="pipeline parallelism [degree; no default]"
    )
    parser.add_argument(
        "--microbatches",
        required=True,
        metavar="M",
        help="microbatches per step and rank [microbatches; no default]",
    )
    parser.add_argument(
        "--virtual-stages",
        metavar="V",
        help="chunks per rank, for interleaved [chunks; default 2 for V schedules, else 1]",
    )
    parser.epilog = f"schedules: {', '.join(SCHEDULES)}"


# What each command does, what it takes and what its help says of it.
COMMANDS: dict[
    str, tuple[Callable[[argparse.Namespace], int], Callable[[argparse.ArgumentParser], None], str]
] = {
    "account": (commands.run_account, _account_arguments, "The memory of one GPU, line by line."),
    "block": (
        commands.run_block,
        _block_arguments,
        "What one block keeps for its backward, tensor by tensor.",
    ),
    "frontier": (
        commands.run_frontier,
        _frontier_arguments,
        "All policies of one block, and the few that no other one beats.",
    ),
    "params": (commands.run_params, _params_arguments, "The parameters of a model, by class."),
    "schedule": (
        commands.run_schedule,
        _schedule_arguments,
        "A pipeline schedule: its order, peaks and bubble.",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (2 after a user's mistake)."""
    mistake = ""
    if isinstance(sys.stdout, TextIOWrapper):
        # A file's name may have characters that the output cannot: they are spelled out.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            arguments = _parser().parse_args(argv)
            status: int = arguments.run(arguments)
        except ValueError as error:
            status, mistake = 2, one_line(error)
        except SystemExit as done:  # --help and --version
            status = int(done.code or 0)
        print(end="", flush=True)
    except KeyboardInterrupt:
        status, mistake = 130, "interrupted"
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
