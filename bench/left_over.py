"""Measures what a program's last phase still gets on a full GPU, beside what PyTorch's own allocators leave it.

``bazel run -c opt //bench:left_over``. The programs are those of bench/generators/phases.py, one for each seed, played
to out of memory. Like those of //bench:compare, all figures are of the simulated GPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import time
from typing import Any

from frugal_alloc._command import progress
from frugal_alloc._common.arguments import Parser

from . import markdown, policy_command
from .arguments import minutes, seed
from .comparison.policy import Policy
from .generators import BadParameter, changed, phases
from .generators.recorder import GIB, MIB
from .phased import plays, programs
from .phased.plays import ALLOCATORS, Left
from .phased.search import Search

# Below the first a program is hard for ours; from the second on ours is as good as the better of the others.
HARD, AS_GOOD = 0.98, 0.995
_MOST_SEEDS = 100_000


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)

    def work(policy: Policy, changes: dict[str, int]) -> tuple[str, dict[str, Any]]:
        player = plays.Plays(policy, changes, plays.KEPT)
        found = _search(player, options) if options.search else _measure(player, _programs(parser, options))
        return f"{table(found)}\n{summary_line(found)}", _figures(found)

    return policy_command.carry_out(parser, options, work)


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
    policy_command.add_arguments(parser, played="ours")
    return parser


def _one(text: str) -> int | str:
    return text if text in phases.FIXED else seed(text)


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    seeds = range(seed(first), seed(last if dash else first) + 1)
    if not 0 < len(seeds) <= _MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 1 to {_MOST_SEEDS} seeds")
    return seeds


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


def _figures(found: list[Left]) -> dict[str, Any]:
    figures = [dataclasses.asdict(left) | {"ratio": left.ratio} for left in found]
    return {"summary": summary(found), "programs": figures}


def table(found: list[Left]) -> str:
    """A line for each program, the worst for ours first."""
    rows = [
        [
            one.name,
            f"{one.parameters['memory'] / GIB:g}",
            f"{one.parameters['last_size'] / MIB:.1f}",
            *(f"{size / MIB:,.0f}" for size in (one.free, *(getattr(one, who) for who in ALLOCATORS))),
            f"{one.ratio:.3f}",
            "" if one.cut_at is None else f"{one.cut_at:,}",
        ]
        for one in sorted(found, key=lambda one: one.ratio)
    ]
    head = ["program", "GPU, GiB", "size, MiB", "not in tensors, MiB", *ALLOCATORS, "ratio", "cut at"]
    return markdown.table(head, rows)


def summary(found: list[Left]) -> dict[str, int | float]:
    ratios = [one.ratio for one in found]
    return {
        "programs": len(ratios),
        "worst": min(ratios),
        "mean": statistics.fmean(ratios),
        f"below_{HARD}": sum(ratio < HARD for ratio in ratios),
        f"below_{AS_GOOD}": sum(ratio < AS_GOOD for ratio in ratios),
        "mean_part_of_free": statistics.fmean(one.ours / one.free for one in found),
    }


def summary_line(found: list[Left]) -> str:
    what = summary(found)
    return (
        f"{what['programs']} programs; ours / the better of native and expandable segments: worst {what['worst']:.3f}, "
        f"mean {what['mean']:.4f}; below {HARD}: {what[f'below_{HARD}']}, below {AS_GOOD}: "
        f"{what[f'below_{AS_GOOD}']}. Of what is not in tensors ours gets {100 * what['mean_part_of_free']:.2f} % on "
        "average.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
