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
from memmodel.configs import load, parse_json_object, read_text, zoo_names
from memmodel.formats import OPTIMIZERS, RECIPES, SITES, recipe
from memmodel.graph import block
from memmodel.ledger import Account, RankLedger, account
from memmodel.plan import Plan, check_integer, field_help, names, pairs
from memmodel.recompute import POLICIES, marks, stash

PROGRAM = "memmodel"
LISTS = ("replay", "save")


class _Parser(argparse.ArgumentParser):
    """argparse, with a mistake reported as one line and no usage."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _number(text: str) -> object:
    """A flag's number as JSON would read it; any other text stays text, for the plan to refuse."""
    if re.fullmatch(r"[+-]?[0-9]{1,4000}", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _names(values: Sequence[str]) -> list[str]:
    return [name for value in values for name in value.split(",") if name]


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
        parser.add_argument(flag, nargs="*", metavar="OP", **options)
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
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{name}: cannot be read ({reason})") from None
    lines = content.split(b"\n")
    if lines[-1] == b"":  # the newline that ends the last line begins no further one
        lines.pop()
    bad = 0
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8")
            found = account(Plan.from_dict(parse_json_object(text, f"line {number}") | flags))
            document = report.account_document(found, _chosen(found, rank))
        except ValueError as error:
            reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
            document, bad = {"error": _one_line(reason)}, bad + 1
        _print_json(document)
    if not lines:
        raise ValueError(f"{name}: empty, one plan a line is needed")
    if bad:
        raise ValueError(f"{bad} of {len(lines)} lines are not valid plans")
    return 0


# --- block, params, schedule -----------------------------------------------------------------


def _block(arguments: argparse.Namespace) -> int:
    given = _field_values(arguments)
    plan_of_block = {name: given.get(name, default) for name, _, default, _ in field_help()}
    arch = load(str(plan_of_block["model"]))
    check_integer("seq_len", plan_of_block["seq_len"], 1)
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
            number = _number(value)
            check_integer(name, number, 1)
            shape[name] = int(value)
    if arguments.json:
        _print_json(report.schedule_document(arguments.name, **shape))
    else:
        print(report.schedule_text(arguments.name, **shape))
    return 0


# --- the program -----------------------------------------------------------------------------


def _print_json(document: object) -> None:
    print(json.dumps(document, allow_nan=False))


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


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
    found.add_argument("--kind", metavar="moe|dense", help="kind of block [default: the last]")
    for item in field_help():
        if item[0] in ("model", "recipe", "formats", "recompute", "seq_len", "dual_stash", *LISTS):
            _add_field(found, *item)

    found = command("params", _params, "The parameters of a model, by class.",
                    f"models: {', '.join(zoo_names())}, or the path of a config.json")  # fmt: skip
    found.add_argument("model", nargs="?", default="deepseek-v3", metavar="MODEL")

    found = command("schedule", _schedule, "A pipeline schedule: its order, peaks and bubble.",
                    f"schedules: {', '.join(schedule.SCHEDULES)}")  # fmt: skip
    found.add_argument("name", metavar="NAME")
    found.add_argument("--pp", required=True, metavar="P", help="pipeline ranks")
    found.add_argument("--microbatches", required=True, metavar="M", help="per step and rank")
    found.add_argument("--virtual-stages", metavar="V", help="chunks per rank, for interleaved")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (2 after a user's mistake)."""
    try:
        arguments = _parser().parse_args(argv)
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except ValueError as error:
        sys.stdout.flush()
        print(f"{PROGRAM}: error: {_one_line(error)}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of a pipe has left (head, less): nothing more to say, and no traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())
