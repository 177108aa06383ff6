"""Plays all histories through the policy as it is and with each choice made otherwise, beside PyTorch's own allocators.

``bazel run -c opt //bench:compare``. It prints the tables of bench/README.md; all figures are of the simulated GPU
and its latency model, so they are the same on every machine.
"""

from __future__ import annotations

import dataclasses
import functools
import shlex
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

from frugal_alloc._command import progress
from frugal_alloc._common import installation
from frugal_alloc._common.arguments import Parser
from frugal_alloc._planning.replay import replays
from frugal_alloc._simulation import simulated_gpu

from . import policy_command, suite
from .comparison import choices, demands, tables
from .comparison.bound import lower_bound_bytes
from .comparison.choices import Alternative, alternatives
from .comparison.figures import OURS, RATIOS, Case, Figures
from .comparison.policy import Policy
from .comparison.rivals import KEPT, RATIOS_OF, Rivals
from .suite import Workload

_NO_CHOICES = "none"


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    options = parser.parse_args(arguments)

    def work(policy: Policy, changes: dict[str, int]) -> tuple[str, dict[str, Any]]:
        tried = _alternatives(parser, policy.options() | changes, options.choices)
        cases = _measure(policy, _load(options.only, options.also, options.scale_to), changes, tried)
        return _text(arguments, cases, tried), _figures(cases)

    return policy_command.carry_out(parser, options, work)


def _parser() -> Parser:
    parser = Parser("compare", description=__doc__.split("\n")[0])
    add = parser.add_argument
    names = suite.names()
    add("--only", type=_histories, metavar="NAME,...", help=f"histories: {', '.join(names)}; default all")
    add("--also", type=Path, nargs="+", default=[], metavar="FILE", help="recordings of your own")
    policy_command.add_arguments(parser, played="all")
    add("--choices", metavar="NAME,...", help=f"options to try otherwise; {_NO_CHOICES}: none; default all")
    add(
        "--scale-to",
        type=simulated_gpu.parse_size,
        metavar="SIZE",
        help="multiply all sizes of a history so that it fills 8 tenths of a GPU of that memory, such as 80GiB",
    )
    return parser


def _histories(text: str) -> list[str]:
    chosen, known = list(dict.fromkeys(text.split(","))), suite.names()
    for name in chosen:
        if name not in known:
            raise ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
    return chosen


def _alternatives(parser: Parser, values: dict[str, int], text: str | None) -> list[Alternative]:
    if text == _NO_CHOICES:
        return []
    chosen = text.split(",") if text else None
    policy_command.check_names(parser, values, "--choices", chosen or [])
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


def _text(arguments: list[str], cases: list[Case], tried: list[Alternative]) -> str:
    torch = installation.find_cuda_torch().version
    command = shlex.join(["bazel", "run", "-c", "opt", "//bench:compare", "--", *_without_program(arguments)])
    parts = [
        f"At commit {_commit()}, torch {torch}, `{command.removesuffix(' --')}`.",
        "Driver time in ms, ours / expandable segments:",
        tables.times(cases),
        "Driver time up to the peak, ms for each GiB held then, ours / expandable segments:",
        tables.growing(cases),
        "In use (the most live ÷ the most held), ours / expandable segments; smallest GPU ÷ live, ours / expandable "
        "segments / native:",
        tables.memory(cases),
        "Demands:",
        tables.judged(demands.demands(cases)),
    ]
    if tried:
        parts += [
            "What each choice bought, recorded / generated histories; in the first line driver time is over expandable "
            "segments':",
            tables.choices(cases, tried),
        ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _commit() -> str:
    """Of this checkout, with "-dirty" where files of it have been changed; "unknown" outside of git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def _without_program(arguments: list[str]) -> list[str]:
    """What the user gave: the path of the program comes from play_histories.sh, first."""
    return arguments[2:] if arguments[:1] == ["--program"] else arguments


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


if __name__ == "__main__":
    sys.exit(main())
