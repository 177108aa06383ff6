"""Compares allocators on all recorded and generated histories, and says which bars ours reaches.

``bazel run -c opt //bench:replay_bench``, or ``python -m bench.replay_bench`` from the root of a checkout. Everything
is played on the simulated GPU, so the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
from pathlib import Path

from frugal_alloc import _installation
from frugal_alloc._arguments import Parser, refuse
from frugal_alloc._command import progress
from frugal_alloc._replay import history_files, replays
from frugal_alloc._simulation import simulated_gpu

from . import provenance, replay_bars, replay_results, replay_suite, replay_tables

_FAILED, _INTERRUPTED = 1, 130
# Where the tables of bars look: tight, tighter, some room, much room.
_RATIOS = [1.001, 1.005, 1.02, 1.2]
_CAVEATS = [
    "Measured on the simulated GPU: kernels compute nothing, and driver time is that of a latency model.",
    "Driver calls and bytes are exact for what the allocator asks; what a real driver adds to it is not known.",
    "With streams behind the host, each allocation and free gives its stream work for a fixed number of events; "
    "real kernels differ in length.",
    "A smallest capacity is found to within 0.05 % of the most live memory.",
]


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.json is not None and not options.json.absolute().parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.absolute().parent}")
    plan = replay_suite.Plan(
        allocators=_allocators(parser, options),
        ratios=_ratios(parser, options.capacity),
        find_minimum=not options.quick,
    )
    try:
        results = _measure(arguments, plan, options.only.split(",") if options.only else None)
        if options.json is not None:
            replay_results.write(results, options.json)
    except replay_suite.UnknownInput as error:
        parser.error(f"--only: {error}")
    except (history_files.HistoryError, _installation.MissingPart, simulated_gpu.SimulationError, OSError) as error:
        return refuse(parser.prog, error)
    except replays.ReplayError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    replay_tables.print_results(results)
    return 0


def _parser() -> Parser:
    parser = Parser("replay_bench", description=__doc__.split("\n")[0])
    parser.add_argument("--only", metavar="NAME,...", help=f"histories: {', '.join(replay_suite.names())}; default all")
    parser.add_argument(
        "--allocators", metavar="NAME,...", help=f"default {','.join(replays.ALLOCATORS)}; the first is judged"
    )
    parser.add_argument(
        "--capacity",
        metavar="RATIO,...",
        help="capacities to play in, over the most live memory, such as 1.005x; default "
        + ",".join(f"{ratio:g}x" for ratio in _RATIOS),
    )
    parser.add_argument("--quick", action="store_true", help="ours alone, without looking for the smallest capacity")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures: bench/replay_results.py")
    return parser


def _allocators(parser: Parser, options: argparse.Namespace) -> list[str]:
    if options.allocators is None:
        return ["frugal"] if options.quick else list(replays.ALLOCATORS)
    chosen = list(dict.fromkeys(options.allocators.split(",")))
    for name in chosen:
        if name not in replays.ALLOCATORS:
            parser.error(f"--allocators: {name!r} is none of {', '.join(replays.ALLOCATORS)}")
    return chosen


def _ratios(parser: Parser, text: str | None) -> list[float]:
    if text is None:
        return _RATIOS
    ratios = []
    for part in text.split(","):
        try:
            ratio = float(part.removesuffix("x"))
        except ValueError:
            ratio = 0.0
        if not 1 <= ratio <= 100:
            parser.error(f"--capacity: {part!r} is no ratio from 1x to 100x")
        ratios.append(ratio)
    return sorted(set(ratios))


def _measure(arguments: list[str], plan: replay_suite.Plan, only: list[str] | None) -> replay_results.Results:
    plays = replay_suite.load(only)
    inputs = [play.input for play in plays]
    replayer = replays.Replayer()
    with progress.progress("replay", replay_suite.count_steps(plays, plan)) as advance:
        findings = replay_suite.measure(replayer, plays, plan, advance)
    return replay_results.Results(
        format=replay_results.FORMAT,
        environment=_environment(arguments),
        allocators=plan.allocators,
        inputs=inputs,
        measurements=findings.measurements,
        behind=findings.behind,
        constrained=findings.constrained,
        bars=replay_bars.bars(inputs, findings),
    )


def _environment(arguments: list[str]) -> replay_results.Environment:
    return replay_results.Environment(
        commit=provenance.commit(),
        time=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        processor=provenance.processor(),
        cores=os.cpu_count() or 0,
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        python=platform.python_version(),
        torch=_installation.find_cuda_torch().version,
        arguments=arguments,
        caveats=_CAVEATS,
    )


if __name__ == "__main__":
    sys.exit(main())
