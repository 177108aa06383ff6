"""Measures what a program's last phase still gets on a full GPU, beside what PyTorch's own allocators leave it.

``bazel run -c opt //bench:left_over``. The programs are those of bench/generators/phases.py, one for each seed, played
to out of memory. Like those of //bench:compare, all figures are of the simulated GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

from frugal_alloc._command import progress
from frugal_alloc._common import installation
from frugal_alloc._common.arguments import Parser, refuse
from frugal_alloc._replay import replays
from frugal_alloc._simulation import simulated_gpu

from . import output_file
from .arguments import minutes, seed
from .comparison import policy_arguments
from .comparison.policy import PlayError, Policy
from .generators import BadParameter, changed, phases
from .phased import plays, programs, tables
from .phased.plays import Left
from .phased.search import Search

_FAILED, _INTERRUPTED = 1, 130
_MOST_SEEDS = 100_000


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.json is not None:
            output_file.check(options.json)
        player = _player(parser, options)
        found = _search(player, options) if options.search else _measure(player, _programs(parser, options))
        if options.json is not None:
            output_file.write(options.json, _json(found))
    except (installation.MissingPart, output_file.NotWritable) as error:
        return refuse(parser.prog, error)
    except (PlayError, replays.ReplayError, simulated_gpu.SimulationError, OSError) as error:
        return _fail(parser, error, _FAILED)
    except KeyboardInterrupt:
        return _fail(parser, "interrupted", _INTERRUPTED)
    print(tables.table(found), tables.summary_line(found), sep="\n", end="")
    return 0


def _parser() -> Parser:
    parser = Parser("left_over", description=__doc__.split("\n")[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--seeds", type=_seeds, default=range(200), metavar="A-B", help="a program of each; default 0-199"
    )
    which.add_argument(
        "--only", type=_one, metavar="SEED|NAME", help=f"the program of one seed, or one of {', '.join(phases.FIXED)}"
    )
    which.add_argument(
        "--parameters", metavar="NAME=VALUE,...", help="one program of these; what is not named is as in phases.py"
    )
    which.add_argument(
        "--search", type=minutes, metavar="MINUTES", help="look so long for the program that is worst for ours"
    )
    parser.add_argument(
        "--search-seed", type=seed, default=0, metavar="SEED", help="what the search draws from; default 0"
    )
    policy_arguments.add(parser, played="ours")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to a file")
    return parser


def _one(text: str) -> int | str:
    return text if text in phases.FIXED else seed(text)


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    seeds = range(seed(first), seed(last if dash else first) + 1)
    if not 0 < len(seeds) <= _MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 1 to {_MOST_SEEDS} seeds")
    return seeds


def _player(parser: Parser, options: argparse.Namespace) -> plays.Plays:
    policy = Policy(options.program)
    changes = dict(options.option)
    policy_arguments.check_names(parser, policy.options(), "--option", list(changes))
    return plays.Plays(policy, changes, plays.KEPT)


def _programs(parser: Parser, options: argparse.Namespace) -> list[programs.Program]:
    if options.only in phases.FIXED:
        return [programs.of_name(options.only)]
    if options.parameters is None:
        return [programs.of_seed(number) for number in (options.seeds if options.only is None else [options.only])]
    try:
        pairs = [pair.partition("=") for pair in options.parameters.split(",")]
        parameters = changed(phases.Parameters(), {name: value for name, _, value in pairs})
        return [programs.of_parameters("given", parameters)]
    except (BadParameter, ValueError, ArithmeticError) as error:
        parser.error(f"--parameters: {error}")


def _measure(player: plays.Plays, made: list[programs.Program]) -> list[Left]:
    with progress.progress("left_over", len(made)) as advance:
        return player.measure_all(made, advance)


def _search(player: plays.Plays, options: argparse.Namespace) -> list[Left]:
    """What is worse than all before is told as it is found."""
    search = Search(options.search_seed, lambda made: player.measure_all(made, lambda _: None))
    end = time.monotonic() + 60 * options.search
    told = None
    while search.worst is None or time.monotonic() < end:
        search.round()
        if search.worst is not None and search.worst is not told:
            told = search.worst
            print(f"{search.tried} tried, ratio {told.ratio:.3f}: --parameters {given(told)}", flush=True)
    print(f"{search.tried} programs tried from seed {options.search_seed}\n")
    return [search.worst]


def given(found: Left) -> str:
    """As --parameters takes it."""
    return ",".join(f"{name}={value}" for name, value in found.parameters.items())


def _json(found: list[Left]) -> str:
    made = [{**dataclasses.asdict(one), "ratio": one.ratio} for one in found]
    return json.dumps({"summary": tables.summary(found), "programs": made}, indent=1) + "\n"


def _fail(parser: Parser, problem: object, status: int) -> int:
    print(f"{parser.prog}: {problem}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
