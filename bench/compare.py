"""Plays all histories through the policy as it is and with each choice made otherwise, beside PyTorch's own allocators.

It prints tables; all figures are of the simulated GPU and its latency model, so they are the same on every machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import simulated_gpu
from frugal_alloc._command import progress
from frugal_alloc._common import installation
from frugal_alloc._common.arguments import Parser
from frugal_alloc._planning.replay import replays

from . import arguments, suite
from .comparison import choices, demands, tables
from .comparison.bound import lower_bound_bytes
from .comparison.choices import Alternative, alternatives
from .comparison.figures import OURS, RATIOS, Case, Figures
from .comparison.policy import Policy
from .comparison.rivals import KEPT, RATIOS_OF, Rivals
from .suite import Workload
from .table import Table

_NO_CHOICES = "none"


def add(parser: Parser) -> None:
    names = suite.names()
    only = arguments.names_of(names)
    parser.add_argument("--only", type=only, metavar="NAME,...", help=f"histories: {', '.join(names)}; default all")
    parser.add_argument("--also", type=Path, nargs="+", default=[], metavar="FILE", help="recordings of your own")
    arguments.add(parser, played="all")
    parser.add_argument(
        "--choices", metavar="NAME,...", help=f"options to try otherwise; {_NO_CHOICES}: none; default all"
    )
    parser.add_argument(
        "--scale-to",
        type=simulated_gpu.parse_size,
        metavar="SIZE",
        help="multiply all sizes of a history so that it fills 8 tenths of a GPU of that memory, such as 80GiB",
    )


def carry_out(options: argparse.Namespace) -> int:
    policy, changes = arguments.start(options)
    tried = _alternatives(options, policy.options() | changes)
    cases = _measure(policy, _load(options.only, options.also, options.scale_to), changes, tried)
    named = _tables(cases, tried)
    command = shlex.join(["bazel", "run", "-c", "opt", "//bench", "--", *options.given])
    parts = [f"At commit {_commit()}, torch {installation.find_cuda_torch().version}, `{command}`."]
    for name, table in named.items():
        parts += [_TITLES[name], table.markdown().rstrip("\n")]
    return arguments.finish(options, "\n\n".join(parts) + "\n", named, _figures(cases))


def _alternatives(options: argparse.Namespace, values: dict[str, int]) -> list[Alternative]:
    if options.choices == _NO_CHOICES:
        return []
    chosen = options.choices.split(",") if options.choices else None
    arguments.check_names(options, values, "--choices", chosen or [])
    return alternatives(values, chosen)


def _load(only: list[str] | None, also: list[Path], memory: int | None) -> list[Workload]:
    """Histories of files are named after their folders, too: others may have the same name."""
    workloads = suite.load(only)
    workloads += [suite.from_file(path, f"{path.absolute().parent.name}/{path.name}") for path in also]
    return workloads if memory is None else [workload.scaled(memory) for workload in workloads]


def _measure(
    policy: Policy, workloads: list[Workload], changes: dict[str, int], tried: list[Alternative]
) -> list[Case]:
    rivals = Rivals(KEPT)
    measure: dict[str, Callable[[Workload], Figures]] = {
        OURS: functools.partial(policy.measure, changes=changes, ratios=RATIOS),
        **{name: functools.partial(rivals.measure, allocator=name) for name in RATIOS_OF},
    }
    for alternative in tried:
        otherwise = changes | {alternative.option: alternative.value}
        measure[alternative.title] = functools.partial(policy.measure, changes=otherwise, ratios=choices.RATIOS)
    with progress.progress("compare", len(workloads) * len(measure)) as advance:

        def job(title: str, workload: Workload) -> Figures:
            figures = measure[title](workload)
            advance(f"{workload.name} {title}")
            return figures

        jobs = [functools.partial(job, title, workload) for workload in workloads for title in measure]
        measured = iter(replays.run_all(rivals.replayer, jobs))
    return [
        Case(workload, lower_bound_bytes(workload.history), {title: next(measured) for title in measure})
        for workload in workloads
    ]


# By the file that keeps it.
_TITLES = {
    "driver_time": "Driver time in ms, ours / expandable segments:",
    "driver_time_to_peak": "Driver time up to the peak, ms for each GiB held then, ours / expandable segments:",
    "memory": "In use (the most live ÷ the most held), ours / expandable segments; "
    "smallest GPU ÷ live, ours / expandable segments / native:",
    "demands": "Demands:",
    "choices": "What each choice bought, recorded / generated histories; "
    "in the first line driver time is over expandable segments':",
}


def _tables(cases: list[Case], tried: list[Alternative]) -> dict[str, Table]:
    found = {
        "driver_time": tables.times(cases),
        "driver_time_to_peak": tables.growing(cases),
        "memory": tables.memory(cases),
        "demands": tables.judged(demands.demands(cases)),
    }
    return found | ({"choices": choices.table(cases, tried)} if tried else {})


def _commit() -> str:
    """Of this checkout, with "-dirty" where files of it have been changed; "unknown" outside of git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def _figures(cases: list[Case]) -> dict[str, Any]:
    histories = {
        case.name: {
            "kind": "recorded" if case.workload.is_recorded else "generated",
            "bound_bytes": case.bound_bytes,
            "figures": {title: dataclasses.asdict(figures) for title, figures in case.figures.items()},
        }
        for case in cases
    }
    return {"histories": histories}
