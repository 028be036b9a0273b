"""What the commands do: a checked plan, block, model or schedule in, a table or JSON out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memmodel import report, report_frontier, schedule
from memmodel.configs import load
from memmodel.flags import field_values, number
from memmodel.formats import Recipe, recipe
from memmodel.graph import Block, block
from memmodel.inputs import as_text, one_line, parse_json_object, read_lines, read_text
from memmodel.ledger import Account, RankLedger, account
from memmodel.plan import MOST, Plan, check_forwards, check_integer, field_help, names, pairs
from memmodel.recompute import marks, stash

MOST_TIMED = 2**18  # forwards of a schedule that `schedule` puts on a clock and prints in seconds


def _print_json(document: object) -> None:
    print(json.dumps(document, allow_nan=False))


# --- account ---------------------------------------------------------------------------------


def run_account(arguments: argparse.Namespace) -> int:
    """The memory of one GPU, line by line, of one plan or of a batch."""
    flags = field_values(arguments)
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
    chosen = number(rank)
    if not isinstance(chosen, int) or not 0 <= chosen < len(found.ranks):
        raise ValueError(
            f"rank = {rank}, but peak, all or a number from 0 to {len(found.ranks) - 1} is needed"
        )
    return (found.ranks[chosen],)


def _batch(name: str, flags: dict[str, object], rank: str) -> int:
    """One plan a line in, one document a line out, in order; a bad line loses nothing else."""
    count = bad = 0
    for count, line in enumerate(read_lines(name), start=1):
        try:
            values = parse_json_object(as_text(line, f"line {count}"), f"line {count}")
            found = account(Plan.from_dict(values | flags))
            document = report.account_document(found, _chosen(found, rank))
        except ValueError as error:
            document, bad = {"error": one_line(error)}, bad + 1
        _print_json(document)
    if not count:
        raise ValueError(f"{name}: empty, one plan a line is needed")
    if bad:
        raise ValueError(f"{bad} of {count} lines are not valid plans")
    return 0


# --- block, frontier, params, schedule -------------------------------------------------------


def run_block(arguments: argparse.Namespace) -> int:
    """What one block keeps for its backward, tensor by tensor."""
    fields, graph, precision = _block_fields(arguments)
    chosen = {name: names(name, fields[name]) for name in ("replay", "save")}
    replayed = marks([graph], fields["recompute"], **chosen)[graph.kind]
    found = stash(graph, precision, replayed, fields["dual_stash"])
    if arguments.json:
        _print_json(report.block_document(found, fields["seq_len"]))
    else:
        print(report.block_text(found, fields["seq_len"]))
    return 0


def _block_fields(arguments: argparse.Namespace) -> tuple[dict[str, Any], Block, Recipe]:
    """All plan fields, given or default, and the block and recipe that they name."""
    fields = {item.name: item.default for item in field_help()} | field_values(arguments)
    arch = load(fields["model"])
    check_integer("seq_len", fields["seq_len"], 1, MOST)
    graph = block(arch, arguments.kind or arch.kinds[-1])
    return fields, graph, recipe(fields["recipe"], dict(pairs("formats", fields["formats"])))


def run_frontier(arguments: argparse.Namespace) -> int:
    """All policies of one block, and the few that no other one beats."""
    from memmodel import planner  # with numpy, which no other command waits for

    for name in ("recompute", "replay", "save"):
        if hasattr(arguments, name):
            raise ValueError(f"--{name}: frontier compares all policies, it is given none")
    fields, graph, precision = _block_fields(arguments)
    budget = arguments.budget_bytes_per_token
    if budget is not None:
        budget = check_integer("budget_bytes_per_token", number(budget), 0)
    found = planner.frontier(
        graph,
        precision,
        dual_stash=fields["dual_stash"],
        seq_len=fields["seq_len"],
        replay_communication=arguments.replay_communication,
    )
    if arguments.json:
        _print_json(report_frontier.frontier_document(found, budget))
    else:
        print(report_frontier.frontier_text(found, budget))
    return 0


def run_params(arguments: argparse.Namespace) -> int:
    """The parameters of a model, by class."""
    arch = load(arguments.model)
    if arguments.json:
        _print_json(report.params_document(arch))
    else:
        print(report.params_text(arch))
    return 0


def run_schedule(arguments: argparse.Namespace) -> int:
    """A pipeline schedule: its order, peaks and bubble."""
    kind = schedule.SCHEDULES.get(arguments.name)
    shape = {"virtual_stages": kind.default_virtual_stages if kind else 1}
    for name in ("pp", "microbatches", "virtual_stages"):
        if (text := getattr(arguments, name)) is not None:
            shape[name] = check_integer(name, number(text), 1, MOST)
    schedule.check(arguments.name, **shape)
    check_forwards(MOST_TIMED, **shape)
    if arguments.json:
        _print_json(report.schedule_document(arguments.name, **shape))
    else:
        print(report.schedule_text(arguments.name, **shape))
    return 0
