"""The command ``frugal-alloc``."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from .. import __version__
from .._common import installation
from .._common.arguments import Interrupted, Parser, nearest, refuse
from .._common.messages import Refused

_DESCRIPTION = "Takes the place of PyTorch's CUDA caching allocator; says where GPU memory goes."
_FIRST = """\
first steps:
  frugal-alloc demo          # half a minute, without a GPU
  frugal-alloc doctor        # what is here, what works, what is missing
  frugal-alloc run train.py  # the program, unchanged, with the allocator on
  frugal-alloc top           # who holds the GPU's memory now, and what leaks
  frugal-alloc fit --gpu "RTX 4090" -- python train.py  # does it fit that GPU?
"""


class _Command(NamedTuple):
    """Two functions of a module in this room, which is imported when the command is asked for."""

    help: str
    module: str
    add: str = "add"  # adds the command's arguments, and what describes it, to a Parser
    # Of the arguments as they were read; returns the status to end with, or raises Refused.
    carry_out: str = "carry_out"
    prints: bool = True  # what it prints is its own, and not another program's


_GROUPS = {
    "to begin with": {
        "demo": _Command("show what this does on three small programs, without a GPU", "demo.command"),
        "doctor": _Command("say what is here, what works and what is missing", "doctor.command"),
    },
    "run programs with the allocator": {
        "run": _Command("run a program with the allocator on", "run", prints=False),
        "preload": _Command("print the path of the library for LD_PRELOAD", "run", "add_preload", "preload"),
        "install-hook": _Command(
            "have FRUGAL_ALLOC=1 enable the allocator in this Python",
            "startup_hook",
            "add_install",
            "carry_out_install",
        ),
        "remove-hook": _Command("undo install-hook", "startup_hook", "add_remove", "carry_out_remove"),
    },
    "see where memory goes": {
        "top": _Command("show what running processes do with GPU memory", "top.command"),
        "report": _Command("show what a run reported about its memory", "show_report"),
    },
    "find out without a GPU": {
        "fit": _Command("say whether a program fits a GPU, and what takes the memory", "fit"),
        "check": _Command("compare the GPU memory of tests with a baseline", "check"),
        "replay": _Command("play recorded programs through several allocators", "replay"),
        "simulate": _Command("run a command on a simulated GPU", "simulate", prints=False),
    },
}
_COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}


def main(arguments: list[str] | None = None) -> NoReturn:
    """Carries out a command line, sys.argv's by default, and exits with its status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    name = arguments[0] if arguments else ""
    if name in _COMMANDS:
        status = _carry_out(name, arguments[1:])
    elif name.startswith("-") or not arguments:
        status = _with_whole_output("frugal-alloc", lambda: _explain(arguments))
    else:
        near = nearest(name, _COMMANDS)
        hint = f"did you mean {near}?" if near else "frugal-alloc --help lists them"
        status = refuse("frugal-alloc", f"there is no command {name}; {hint}")
    sys.exit(status)


def _carry_out(name: str, arguments: list[str]) -> int:
    command, program = _COMMANDS[name], f"frugal-alloc {name}"

    def call() -> int:
        if not set(arguments[:1]) & {"-h", "--help"}:
            installation.check_platform()
        module = importlib.import_module(f".{command.module}", __package__)
        parser = Parser(program)
        getattr(module, command.add)(parser)
        return getattr(module, command.carry_out)(parser.parse_args(arguments))

    try:
        return _with_whole_output(program, call) if command.prints else call()
    except _refusals() as error:
        return refuse(program, error)


def _refusals() -> tuple[type[Exception], ...]:
    """Errors whose message is a line for people; the simulated GPU's, in a command that imports it."""
    ours = (Refused, installation.MissingPart)
    simulated_gpu = sys.modules.get("simulated_gpu")
    return ours if simulated_gpu is None else (*ours, simulated_gpu.Refused)


def _with_whole_output(program: str, carry_out: Callable[[], int]) -> int:
    """The status of a command of ours; output that is lost, on a full disk, makes it fail.

    It is flushed here, since the interpreter would do so with a traceback and a status of its own.
    """
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        status = _status(program, carry_out)
        sys.stdout.flush()
    except BrokenPipeError:
        status = 0  # whoever read has seen enough
    except OSError as error:
        what = error.filename or "the output"
        status = refuse(program, f"{what} cannot be read or written: {error.strerror or error}")
    else:
        return status
    with contextlib.suppress(OSError, ValueError):
        # What could not be written must not be tried again as the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _status(program: str, carry_out: Callable[[], int]) -> int:
    try:
        return carry_out()
    except SystemExit as ended:  # --help and wrong arguments
        return ended.code  # type: ignore[return-value]
    except KeyboardInterrupt:
        interrupted = Interrupted("interrupted")
    except Interrupted as error:
        interrupted = error
    refuse(program, interrupted)
    return interrupted.status


def _explain(arguments: list[str]) -> NoReturn:
    """What a command line without a command asks for: help, or the version."""
    groups = [
        "\n".join([f"{title}:", *(f"    {name:<14}{command.help}" for name, command in group.items()), ""])
        for title, group in _GROUPS.items()
    ]
    parser = Parser(
        "frugal-alloc",
        usage="%(prog)s COMMAND [ARGUMENT ...]",
        description=_DESCRIPTION,
        epilog="\n".join([*groups, _FIRST]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"frugal-alloc {__version__}")
    parser.parse_args(arguments)
    parser.error("name a command")
