"""What the commands that play the policy alone have in common: arguments, and how they end."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from frugal_alloc._common import installation, whole_files
from frugal_alloc._common.arguments import Parser, refuse
from frugal_alloc._planning.replay import history_files, replays
from frugal_alloc._simulation import simulated_gpu

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
    parser.add_argument("--json", type=_writable, metavar="FILE", help="also write all figures to a file")


def carry_out(
    parser: Parser, options: argparse.Namespace, work: Callable[[Policy, dict[str, int]], tuple[str, dict[str, Any]]]
) -> int:
    """Prints the text that the work makes and writes its figures; the exit status.

    `work` is given what plays, and the options that are to have other values.
    """
    try:
        policy, changes = Policy(options.program), dict(options.option)
        check_names(parser, policy.options(), "--option", changes)
        text, figures = work(policy, changes)
        if options.json is not None:
            whole_files.write(str(options.json), (json.dumps(figures, indent=1) + "\n").encode())
    except (history_files.HistoryError, installation.MissingPart) as error:
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


def _writable(text: str) -> Path:
    """A file of which it is not plain before an hour of measuring that it cannot be written."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path.parent} is not a folder")
    if not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"no files can be written in {path.parent}")
    return path


def _assignment(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not (value.isascii() and value.isdigit() and int(value) < 1 << 62):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name, '=' and a number")
    return name, int(value)
