"""The command line: flags and plan files in, tables or JSON out; every mistake is one line."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from memmodel import __version__, report, schedule
from memmodel.configs import load, zoo_names
from memmodel.formats import OPTIMIZERS, RECIPES, SITES, recipe
from memmodel.graph import block
from memmodel.inputs import MOST_DIGITS, as_text, parse_json_object, read_lines, read_text
from memmodel.ledger import Account, RankLedger, account
from memmodel.plan import MOST, Plan, check_forwards, check_integer, field_help, names, pairs
from memmodel.recompute import POLICIES, marks, stash

PROGRAM = "memmodel"
LISTS = ("replay", "save")
MOST_TEXT = 600  # characters of an error message, which may quote what was given


class _Parser(argparse.ArgumentParser):
    """argparse, with a mistake reported as one line and no usage."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _number(text: str) -> object:
    """A flag's number as JSON would read it; any other text stays text, for the plan to refuse."""
    if re.fullmatch(rf"[+-]?[0-9]{{1,{MOST_DIGITS}}}", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    return text


def _names(values: Sequence[str]) -> list[str]:
    return [name for value in values for name in re.split(r"[\s,]+", value) if name]


def _add_field(parser: argparse.ArgumentParser, name: str, unit: str, default: object,
               meaning: str) -> None:  # fmt: skip
    """One plan field as a flag; absent flags leave no trace, so that a file's value stands."""
    flag = f"--{name.replace('_', '-')}"
    shown = default
    for special, word in ((None, "derived"), ((), "none"), (False, "off")):
        if default is special or (default == special and special == ()):
            shown = word
    options: dict[str, Any] = {
        "dest": name,
        "default": argparse.SUPPRESS,
        "help": f"{meaning} [{unit}; default {shown}]".replace("%", "%%"),
    }
    if isinstance(default, bool):
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
    elif name in LISTS:
        parser.add_argument(flag, nargs="*", metavar="OP", action="extend", **options)
    else:
        parser.add_argument(flag, metavar="VALUE", **options)


def _field_values(arguments: argparse.Namespace) -> dict[str, object]:
    """The plan fields that were given as flags, as JSON values."""
    given: dict[str, object] = {}
    for name, _, default, _ in field_help():
        if not hasattr(arguments, name):
            continue
        value = getattr(arguments, name)
        if name in LISTS:
            given[name] = _names(value)
        elif name == "formats":
            given[name] = parse_json_object(value, "--formats")
        elif default is None or type(default) in (int, float):
            given[name] = _number(value)
        else:
            given[name] = value
    return given


# --- account ---------------------------------------------------------------------------------


def _account(arguments: argparse.Namespace) -> int:
    flags = _field_values(arguments)
    if arguments.batch is not None:
        if arguments.plan is not None:
            raise ValueError("give a plan file or --batch, not both")
        return _batch(arguments.batch, flags, arguments.rank)
    values = {}
    if arguments.plan is not None:
        values = parse_json_object(read_text(Path(arguments.plan), arguments.plan), arguments.plan)
    found = account(Plan.from_dict(values | flags))
    ranks = _chosen(found, arguments.rank)
    if arguments.json:
        _print_json(report.account_document(found, ranks))
    else:
        print(report.account_text(found, ranks))
    return 0


def _chosen(found: Account, rank: str) -> Sequence[RankLedger]:
    if rank == "all":
        return found.ranks
    if rank == "peak":
        return (found.peak,)
    number = _number(rank)
    if not isinstance(number, int) or not 0 <= number < len(found.ranks):
        raise ValueError(
            f"rank = {rank}, but peak, all or a number from 0 to {len(found.ranks) - 1} is needed"
        )
    return (found.ranks[number],)


def _batch(name: str, flags: dict[str, object], rank: str) -> int:
    """One plan a line in, one document a line out, in order; a bad line loses nothing else."""
    number = bad = 0
    for number, line in enumerate(read_lines(name), start=1):
        try:
            values = parse_json_object(as_text(line, f"line {number}"), f"line {number}")
            found = account(Plan.from_dict(values | flags))
            document = report.account_document(found, _chosen(found, rank))
        except ValueError as error:
            document, bad = {"error": _one_line(error)}, bad + 1
        _print_json(document)
    if not number:
        raise ValueError(f"{name}: empty, one plan a line is needed")
    if bad:
        raise ValueError(f"{bad} of {number} lines are not valid plans")
    return 0


# --- block, params, schedule -----------------------------------------------------------------


def _block(arguments: argparse.Namespace) -> int:
    given = _field_values(arguments)
    plan_of_block = {name: given.get(name, default) for name, _, default, _ in field_help()}
    arch = load(str(plan_of_block["model"]))
    check_integer("seq_len", plan_of_block["seq_len"], 1, MOST)
    seq_len = int(str(plan_of_block["seq_len"]))
    kind = arguments.kind or arch.kinds[-1]
    graph = block(arch, kind)
    replayed = marks(
        [graph],
        str(plan_of_block["recompute"]),
        replay=names("replay", plan_of_block["replay"]),
        save=names("save", plan_of_block["save"]),
    )[kind]
    formats = dict(pairs("formats", plan_of_block["formats"]))
    precision = recipe(str(plan_of_block["recipe"]), formats)
    found = stash(graph, precision, replayed, plan_of_block["dual_stash"] is True)
    if arguments.json:
        _print_json(report.block_document(found, seq_len))
    else:
        print(report.block_text(found, seq_len))
    return 0


def _params(arguments: argparse.Namespace) -> int:
    arch = load(arguments.model)
    if arguments.json:
        _print_json(report.params_document(arch))
    else:
        print(report.params_text(arch))
    return 0


def _schedule(arguments: argparse.Namespace) -> int:
    shape: dict[str, int] = {}
    for name in ("pp", "microbatches", "virtual_stages"):
        value = getattr(arguments, name)
        if value is None:
            kind = schedule.SCHEDULES.get(arguments.name)
            shape[name] = kind.default_virtual_stages if kind else 1
        else:
            check_integer(name, _number(value), 1, MOST)
            shape[name] = int(value)
    schedule.check(arguments.name, **shape)
    check_forwards(**shape)
    if arguments.json:
        _print_json(report.schedule_document(arguments.name, **shape))
    else:
        print(report.schedule_text(arguments.name, **shape))
    return 0


# --- the program -----------------------------------------------------------------------------


def _print_json(document: object) -> None:
    print(json.dumps(document, allow_nan=False))


def _one_line(text: object) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= MOST_TEXT else line[: MOST_TEXT - 4] + " ..."


def _parser() -> argparse.ArgumentParser:
    top = _Parser(prog=PROGRAM, description="How much memory each GPU holds in training, and why.")
    top.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = top.add_subparsers(dest="command", required=True, parser_class=_Parser,
                                  metavar="account | block | params | schedule")  # fmt: skip

    def command(name: str, run: Callable[[argparse.Namespace], int], meaning: str,
                epilog: str | None = None) -> argparse.ArgumentParser:  # fmt: skip
        layout = argparse.RawDescriptionHelpFormatter
        added = commands.add_parser(
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
        "account", _account, "The memory of one GPU, line by line.",
        f"models: {', '.join(zoo_names())}\n\nformat sites: {', '.join(SITES)}\n\n"
        f"optimizers, bytes per parameter (weight + gradient + optimizer):\n{optimizers}",
    )  # fmt: skip
    found.add_argument("plan", nargs="?", metavar="PLAN.json", help="a plan; flags override it")
    found.add_argument("--rank", default="peak", metavar="N|peak|all",
                       help="which pipeline rank [default peak]")  # fmt: skip
    found.add_argument("--batch", metavar="PLANS.jsonl", help="one plan a line (- for standard "
                       "input) in, one JSON document a line out")  # fmt: skip
    for item in field_help():
        _add_field(found, *item)

    found = command("block", _block, "What one block keeps for its backward, tensor by tensor.",
                    f"recipes: {', '.join(RECIPES)}; policies: {', '.join(POLICIES)}")  # fmt: skip
    found.add_argument("--kind", metavar="moe|dense",
                       help="kind of block [default that of the model's last layer]")  # fmt: skip
    for item in field_help():
        if item[0] in ("model", "recipe", "formats", "recompute", "seq_len", "dual_stash", *LISTS):
            _add_field(found, *item)

    found = command("params", _params, "The parameters of a model, by class.",
                    f"models: {', '.join(zoo_names())}, or the path of a config.json")  # fmt: skip
    found.add_argument("model", nargs="?", default="deepseek-v3", metavar="MODEL",
                       help="zoo name, or path of a config.json [default deepseek-v3]")  # fmt: skip

    found = command("schedule", _schedule, "A pipeline schedule: its order, peaks and bubble.",
                    f"schedules: {', '.join(schedule.SCHEDULES)}")  # fmt: skip
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
            status, mistake = 2, _one_line(error)
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
