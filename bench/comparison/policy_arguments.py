"""What the commands that play the policy alone are told about it: which program plays, with which options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

_PROGRAM = Path(__file__).resolve().parent.parent.parent / ".bazel" / "bin" / "bench" / "policy_player"


def add(parser: argparse.ArgumentParser, played: str) -> None:
    """Adds ``--option``, pairs of a name and a number for what is `played`, and ``--program``, which Bazel gives."""
    parser.add_argument(
        "--option",
        type=_assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"play {played} with this option of allocator/port/policy_options.h",
    )
    parser.add_argument("--program", type=Path, default=_PROGRAM, help=argparse.SUPPRESS)


def check_names(parser: argparse.ArgumentParser, known: Iterable[str], argument: str, names: list[str]) -> None:
    """Ends the program, as the parser does for what is wrong, where one of the names is no option's."""
    for name in names:
        if name not in known:
            parser.error(f"{argument}: no option is named {name!r}; there are {', '.join(known)}")


def _assignment(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not (value.isascii() and value.isdigit() and int(value) < 1 << 62):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name, '=' and a number")
    return name, int(value)
