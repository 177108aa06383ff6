"""``frugal-alloc run`` and ``frugal-alloc preload``: programs, unchanged, with the allocator on."""

from __future__ import annotations

import argparse

import frugal_alloc

from .._common.arguments import Parser
from .._common.messages import Refused
from .._switch import settings
from . import run_program


def add(parser: Parser) -> None:
    parser.usage = (
        "%(prog)s SCRIPT [ARGUMENT ...]\n       %(prog)s -m MODULE [ARGUMENT ...]\n"
        "       %(prog)s --preload COMMAND [ARGUMENT ...]"
    )
    parser.description = (
        "Runs a program, unchanged, with frugal_alloc in the place of PyTorch's CUDA allocator: a Python program in "
        "this Python, and every Python process that it starts; with --preload any program on PyTorch or LibTorch, and "
        "every one that it starts. FRUGAL_ALLOC_CONF says with which settings; FRUGAL_ALLOC=0 turns it off."
    )
    parser.add_argument("-m", action="store_true", dest="is_module", help=argparse.SUPPRESS)
    parser.add_argument("--preload", action="store_true", help=argparse.SUPPRESS)
    parser.add_command(missing="")


def carry_out(options: argparse.Namespace) -> int:
    if not options.command:
        missing = "-m needs the name of a module" if options.is_module else "name the script to run"
        options.error("--preload needs a command" if options.preload else missing)
    if options.preload:
        run_program.become(options.command, settings.is_turned_off())
    return _run_python(options.command, options.is_module)


def _run_python(command: list[str], is_module: bool) -> int:
    program = command[0] if is_module else run_program.find(command[0])
    run_program.check(program, is_module)
    if not settings.is_turned_off():
        _enable()
        run_program.enable_in_children()
    (run_program.run_module if is_module else run_program.run_script)(program, command[1:])
    return 0


def _enable() -> None:
    try:
        frugal_alloc.enable()
    except frugal_alloc.FrugalAllocError as error:
        reason = str(error).strip().split("\n")[0]
        raise Refused(f"the allocator cannot be used: {reason} (frugal-alloc doctor tells more)") from None


def add_preload(parser: Parser) -> None:
    parser.description = (
        "Prints the path of a library that puts the allocator into any program on PyTorch or LibTorch: "
        "LD_PRELOAD=$(frugal-alloc preload) ./program. frugal-alloc run --preload ./program does the same."
    )


def preload(options: argparse.Namespace) -> int:
    print(run_program.preloaded_library())
    return 0
