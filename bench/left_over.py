"""Measures what a program's last phase still gets on a full GPU, beside what PyTorch's own allocators leave it.

The programs are those of bench/generators/phases.py, one for each seed, played to out of memory.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from typing import Any

from frugal_alloc._command import progress
from frugal_alloc._common.arguments import Parser

from . import arguments, phased
from .generators import phases
from .generators.recorder import GIB, MIB
from .phased import ALLOCATORS, DRAWN, Left
from .table import Table

# Below the first a program is hard for ours; from the second on ours is as good as the better of the others.
HARD, AS_GOOD = 0.98, 0.995
# Where the others get next to nothing, a ratio says little.
MOST_COUNTED = 1.5
_MOST_SEEDS, _SEEDS_END = 100_000, 1 << 62


def add(parser: Parser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--seeds", type=_seeds, default=range(200), metavar="A-B", help="a program of each; default 0-199"
    )
    which.add_argument(
        "--only", type=_one, metavar="SEED|NAME", help=f"the program of one seed, or one of {', '.join(phases.FIXED)}"
    )
    parser.add_argument(
        "--sizes",
        choices=DRAWN,
        default="any",
        help="what a seed draws: tensors of any sizes, or around the borders of size classes; default any",
    )
    arguments.add(parser, played="ours")


def carry_out(options: argparse.Namespace) -> int:
    policy, changes = arguments.start(options)
    player = phased.Plays(policy, changes, phased.KEPT)
    chosen = [options.only] if options.only is not None else options.seeds
    made = [phased.program_of(which, DRAWN[options.sizes]) for which in chosen]
    with progress.progress("left_over", len(made)) as advance:
        found = player.measure_all(made, advance)
    lines = table(found)
    return arguments.finish(
        options, f"{lines.markdown()}\n{summary_line(found)}", {"left_over": lines}, _figures(found)
    )


def _one(text: str) -> int | str:
    return text if text in phases.FIXED else _seed(text)


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    seeds = range(_seed(first), _seed(last if dash else first) + 1)
    if not 0 < len(seeds) <= _MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 1 to {_MOST_SEEDS} seeds")
    return seeds


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < _SEEDS_END):
        raise argparse.ArgumentTypeError(f"a seed is a number from 0 on, not {text!r}")
    return int(text)


def _figures(found: list[Left]) -> dict[str, Any]:
    figures = [dataclasses.asdict(left) | {"ratio": left.ratio} for left in found]
    return {"summary": summary(found), "programs": figures}


def table(found: list[Left]) -> Table:
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
    return Table(head, rows)


def summary(found: list[Left]) -> dict[str, int | float]:
    ratios = [one.ratio for one in found]
    return {
        "programs": len(ratios),
        "worst": min(ratios),
        "mean": statistics.fmean(ratios),
        "mean_capped": statistics.fmean(min(ratio, MOST_COUNTED) for ratio in ratios),
        f"below_{HARD}": sum(ratio < HARD for ratio in ratios),
        f"below_{AS_GOOD}": sum(ratio < AS_GOOD for ratio in ratios),
        "mean_part_of_free": statistics.fmean(_part_of_free(one) for one in found),
        "worst_part_of_free": min(_part_of_free(one) for one in found),
    }


def _part_of_free(one: Left) -> float:
    """Of what an allocator that knew the program would get: what is free, in whole requests."""
    size = int(one.parameters["last_size"])
    return one.ours / max(size, one.free // size * size)


def summary_line(found: list[Left]) -> str:
    what = summary(found)
    return (
        f"{what['programs']} programs; ours / the better of native and expandable segments: worst {what['worst']:.3f}, "
        f"mean {what['mean']:.4f}, {what['mean_capped']:.4f} with each as {MOST_COUNTED} at most; below {HARD}: "
        f"{what[f'below_{HARD}']}, below {AS_GOOD}: {what[f'below_{AS_GOOD}']}. Of what an allocator that knew the "
        f"program would get, ours gets {what['mean_part_of_free']:.4f} in the mean, {what['worst_part_of_free']:.3f} "
        "at worst.\n"
    )
