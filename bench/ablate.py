"""Plays all histories through the policy as it is and with each choice made otherwise, beside PyTorch's own allocators.

``bazel run -c opt //bench:ablate``. It prints the tables of docs/performance.md; all figures are of the simulated GPU
and its latency model, so they are the same on every machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from frugal_alloc import _installation
from frugal_alloc._arguments import Parser, refuse
from frugal_alloc._command import progress
from frugal_alloc._replay import history_files, replays
from frugal_alloc._simulation import simulated_gpu

from . import output_file, provenance, replay_suite
from .ablation import bars, bought, policy_arguments, tables
from .ablation.cases import Case, bound_bytes
from .ablation.choices import Alternative, alternatives
from .ablation.plays import RATIOS, Figures, PlayError, Policy
from .ablation.rivals import KEPT, RATIOS_OF, Rival, Rivals

T = TypeVar("T")

_FAILED, _INTERRUPTED = 1, 130
_MOST_GIB = 1024
_NO_CHOICES = "none"
RIVALS = tuple(RATIOS_OF)


@dataclasses.dataclass(frozen=True)
class Findings:
    cases: list[Case]
    alternatives: list[Alternative]
    # By alternative, then by case.
    others: list[list[Figures]]


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        for path in (options.table, options.json):
            if path is not None:
                output_file.check(path)
        policy = Policy(options.program)
        changes = dict(options.option)
        policy_arguments.check_names(parser, policy.options(), "--option", list(changes))
        tried = _alternatives(parser, policy.options() | changes, options.choices)
        found = _measure(policy, _load(options.only, options.also, options.scale_to), changes, tried)
        text = _text(arguments, found)
        if options.table is not None:
            output_file.write(options.table, text)
        if options.json is not None:
            output_file.write(options.json, _json(found))
    except replay_suite.UnknownInput as error:
        parser.error(f"--only: {error}")
    except (history_files.HistoryError, _installation.MissingPart, output_file.NotWritable) as error:
        return refuse(parser.prog, error)
    except (PlayError, replays.ReplayError, simulated_gpu.SimulationError, OSError) as error:
        return _fail(parser, error, _FAILED)
    except KeyboardInterrupt:
        return _fail(parser, "interrupted", _INTERRUPTED)
    print(text, end="")
    return 0


def _parser() -> Parser:
    parser = Parser("ablate", description=__doc__.split("\n")[0])
    parser.add_argument("--only", metavar="NAME,...", help=f"histories: {', '.join(replay_suite.names())}; default all")
    parser.add_argument("--also", type=Path, nargs="+", default=[], metavar="FILE", help="recordings of your own")
    policy_arguments.add(parser, played="all")
    parser.add_argument(
        "--choices", metavar="NAME,...", help=f"options to try otherwise; {_NO_CHOICES}: none; default all"
    )
    parser.add_argument(
        "--scale-to",
        type=_gibibytes,
        metavar="GiB",
        help="multiply all sizes of a history so that it fills 8 tenths of a GPU of that memory, such as 80GiB",
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="also write the tables to a file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to a file")
    return parser


def _gibibytes(text: str) -> int:
    number = text.removesuffix("GiB")
    if not (number.isascii() and number.isdigit() and 0 < int(number) <= _MOST_GIB):
        raise argparse.ArgumentTypeError(f"{text!r} is no memory of a GPU, such as 80GiB; at most {_MOST_GIB}GiB")
    return int(number) << 30


def _alternatives(parser: Parser, values: dict[str, int], text: str | None) -> list[Alternative]:
    if text == _NO_CHOICES:
        return []
    chosen = text.split(",") if text else None
    policy_arguments.check_names(parser, values, "--choices", chosen or [])
    return alternatives(values, chosen)


def _load(only: str | None, also: list[Path], memory: int | None) -> list[replay_suite.Play]:
    """Histories of files are named after their folders, too: others may have the same name."""
    plays = replay_suite.load(only.split(",") if only else None)
    plays += [replay_suite.from_file(path, f"{path.absolute().parent.name}/{path.name}") for path in also]
    return plays if memory is None else [replay_suite.scaled_play(play, memory) for play in plays]


def _measure(
    policy: Policy, plays: list[replay_suite.Play], changes: dict[str, int], tried: list[Alternative]
) -> Findings:
    rivals = Rivals(KEPT)
    measure: dict[str, Callable[[replay_suite.Play], Figures | Rival]] = {
        "ours": functools.partial(policy.measure, changes=changes, ratios=RATIOS),
        **{name: functools.partial(rivals.measure, allocator=name) for name in RIVALS},
    }
    for one in tried:
        title = f"{one.option}={one.value}"
        measure[title] = functools.partial(policy.measure, changes=changes | one.changes, ratios=bought.RATIOS)
    with progress.progress("ablate", len(plays) * len(measure)) as advance:

        def job(title: str, play: replay_suite.Play) -> Figures | Rival:
            found = measure[title](play)
            advance(f"{play.input.name} {title}")
            return found

        jobs = [functools.partial(job, title, play) for title in measure for play in plays]
        found = replays.run_all(rivals.replayer, jobs)
    ours, expandable, native, *others = _split(found, len(plays))
    bounds = [bound_bytes(play.history) for play in plays]
    cases = [Case(*one) for one in zip(plays, ours, expandable, native, bounds, strict=True)]
    return Findings(cases, tried, others)


def _split(found: list[T], length: int) -> list[list[T]]:
    return [found[begin : begin + length] for begin in range(0, len(found), length)]


def _text(arguments: list[str], found: Findings) -> str:
    torch = _installation.find_cuda_torch().version
    command = shlex.join(["bazel", "run", "-c", "opt", "//bench:ablate", "--", *_without_program(arguments)])
    parts = [
        f"At commit {provenance.commit()}, torch {torch}, `{command.removesuffix(' --')}`.",
        "Driver time in ms, ours / expandable segments:",
        tables.times(found.cases),
        "Driver time up to the peak, ms for each GiB held then, ours / expandable segments:",
        tables.growing(found.cases),
        "In use (the most live ÷ the most held), ours / expandable segments; smallest GPU ÷ live, ours / expandable "
        "segments / native:",
        tables.memory(found.cases),
        "Bars:",
        tables.judged(bars.bars(found.cases)),
    ]
    if found.alternatives:
        parts += [
            "What each choice bought, recorded / generated histories; in the first line driver time is over expandable "
            "segments':",
            tables.choices(found.cases, found.alternatives, found.others),
        ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _without_program(arguments: list[str]) -> list[str]:
    """What the user gave: the path of the program comes from ablate.sh, first."""
    return arguments[2:] if arguments[:1] == ["--program"] else arguments


def _json(found: Findings) -> str:
    histories = {
        case.name: {
            "live_bytes": case.live_bytes,
            "kind": case.play.input.kind,
            "bound_bytes": case.bound_bytes,
            **{who: dataclasses.asdict(getattr(case, who)) for who in ("ours", *RIVALS)},
        }
        for case in found.cases
    }
    tried = [
        {"option": one.option, "value": one.value, "figures": [dataclasses.asdict(figures) for figures in others]}
        for one, others in zip(found.alternatives, found.others, strict=True)
    ]
    return json.dumps({"histories": histories, "alternatives": tried}, indent=1) + "\n"


def _fail(parser: Parser, problem: object, status: int) -> int:
    print(f"{parser.prog}: {problem}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
