"""What the commands that play the policy have in common: their arguments, and what becomes of what they find."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from frugal_alloc._common import whole_files
from frugal_alloc._common.arguments import Parser

from .comparison.policy import Policy
from .table import Table


def names_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """An argparse type: some of the known names, with commas between."""
    known = list(known)

    def names(text: str) -> list[str]:
        chosen = list(dict.fromkeys(text.split(",")))
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return chosen

    return names


def add(parser: Parser, played: str) -> None:
    """Adds ``--option`` for what is `played`, ``--json`` and ``--csv``."""
    parser.add_argument(
        "--option",
        type=_assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"play {played} with this option of allocator/port/policy_options.h",
    )
    parser.add_argument("--json", type=_writable, metavar="FILE", help="also write all figures to a file")
    parser.add_argument("--csv", type=_folder, metavar="FOLDER", help="also write each table to a file there")


def start(options: argparse.Namespace) -> tuple[Policy, dict[str, int]]:
    """What plays, and the options that are to have other values."""
    policy, changes = Policy(options.program), dict(options.option)
    check_names(options, policy.options(), "--option", changes)
    return policy, changes


def finish(options: argparse.Namespace, text: str, tables: dict[str, Table], figures: dict[str, Any]) -> int:
    """Prints the text and writes what is asked for; the exit status."""
    if options.json is not None:
        whole_files.write(str(options.json), (json.dumps(figures, indent=1) + "\n").encode())
    for name, table in tables.items() if options.csv is not None else ():
        whole_files.write(str(options.csv / f"{name}.csv"), table.csv().encode())
    print(text, end="")
    return 0


def check_names(options: argparse.Namespace, known: Iterable[str], argument: str, names: Iterable[str]) -> None:
    """Ends the program, as the parser does for what is wrong, where one of the names is no option's."""
    for name in names:
        if name not in known:
            options.error(f"{argument}: no option is named {name!r}; there are {', '.join(known)}")


def _writable(text: str) -> Path:
    """A file of which it is not plain before an hour of measuring that it cannot be written."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder; name a file")
    _folder(str(path.parent))
    return path


def _folder(text: str) -> Path:
    """Likewise of a folder."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is not a folder")
    if not os.access(path, os.W_OK):
        raise argparse.ArgumentTypeError(f"no files can be written in {path}")
    return path


def _assignment(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not (value.isascii() and value.isdigit() and int(value) < 1 << 62):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name, '=' and a number")
    return name, int(value)
