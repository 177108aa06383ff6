"""What the commands that play the policy alone have in common: arguments, and how they end."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from frugal_alloc._common import installation
from frugal_alloc._common.arguments import Parser, refuse
from frugal_alloc._replay import history_files, replays
from frugal_alloc._simulation import simulated_gpu

from . import output_file
from .comparison.policy import PlayError, Policy

_PROGRAM = Path(__file__).resolve().parent.parent / ".bazel" / "bin" / "bench" / "policy_player"
_FAILED, _INTERRUPTED = 1, 130


def add_arguments(parser: Parser, played: str) -> None:
    """Adds ``--option`` for what is `played`, ``--json``, and ``--program``, which Bazel gives."""
    parser.add_argument(
        "--option",
        type=_assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"play {played} with this option of allocator/port/policy_options.h",
    )
    parser.add_argument("--program", type=Path, default=_PROGRAM, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to a file")


def carry_out(
    parser: Parser, options: argparse.Namespace, work: Callable[[Policy, dict[str, int]], tuple[str, dict[str, Any]]]
) -> int:
    """Prints the text that the work makes and writes its figures; the exit status.

    `work` is given what plays, and the options that are to have other values.
    """
    try:
        if options.json is not None:
            output_file.check(options.json)
        policy, changes = Policy(options.program), dict(options.option)
        check_names(parser, policy.options(), "--option", changes)
        text, figures = work(policy, changes)
        if options.json is not None:
            output_file.write(options.json, json.dumps(figures, indent=1) + "\n")
    except (history_files.HistoryError, installation.MissingPart, output_file.NotWritable) as error:
        return refuse(parser.prog, error)
    except (PlayError, replays.ReplayError, simulated_gpu.SimulationError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    print(text, end="")
    return 0


def check_names(parser: Parser, known: Iterable[str], argument: str, names: Iterable[str]) -> None:
    """Ends the program, as the parser does for what is wrong, where one of the names is no option's."""
    for name in names:
        if name not in known:
            parser.error(f"{argument}: no option is named {name!r}; there are {', '.join(known)}")


def _assignment(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not (value.isascii() and value.isdigit() and int(value) < 1 << 62):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name, '=' and a number")
    return name, int(value)
