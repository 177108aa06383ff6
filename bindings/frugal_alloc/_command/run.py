"""``frugal-alloc run`` and ``frugal-alloc preload``: programs, unchanged, with the allocator on."""

from __future__ import annotations

from typing import NoReturn

import frugal_alloc

from .. import _settings
from .._arguments import Parser
from .._messages import Refused
from . import run_program


def main(arguments: list[str]) -> int:
    parser = Parser(
        "frugal-alloc run",
        usage="%(prog)s SCRIPT [ARGUMENT ...]\n       %(prog)s -m MODULE [ARGUMENT ...]\n"
        "       %(prog)s --preload COMMAND [ARGUMENT ...]",
        description="Runs a program, unchanged, with frugal_alloc in the place of PyTorch's CUDA allocator: a Python "
        "program in this Python, and every Python process that it starts; with --preload any program on PyTorch or "
        "LibTorch, and every one that it starts. FRUGAL_ALLOC_CONF says with which settings; FRUGAL_ALLOC=0 turns it "
        "off.",
    )
    option = arguments[0] if arguments and arguments[0].startswith("-") else ""
    if option in ("-h", "--help"):
        parser.parse_args([option])
    if option not in ("", "--", "-m", "--preload"):
        parser.refuse_option(option, ("--preload", "--help"))
    command = arguments[1:] if option else arguments
    if option == "--preload" and command[:1] == ["--"]:
        command = command[1:]
    if not command:
        missing = {"-m": "-m needs the name of a module", "--preload": "--preload needs a command"}
        parser.error(missing.get(option, "name the script to run"))
    return _run_preloaded(command) if option == "--preload" else _run_python(command, option == "-m")


def _run_python(command: list[str], is_module: bool) -> int:
    program = command[0] if is_module else run_program.find(command[0])
    run_program.check(program, is_module)
    if not _settings.is_turned_off():
        _enable()
        run_program.enable_in_children()
    (run_program.run_module if is_module else run_program.run_script)(program, command[1:])
    return 0


def _run_preloaded(command: list[str]) -> NoReturn:
    run_program.become(command, _settings.is_turned_off())


def _enable() -> None:
    try:
        frugal_alloc.enable()
    except frugal_alloc.FrugalAllocError as error:
        reason = str(error).strip().split("\n")[0]
        raise Refused(f"the allocator cannot be used: {reason} (frugal-alloc doctor tells more)") from None


def preload(arguments: list[str]) -> int:
    Parser(
        "frugal-alloc preload",
        description="Prints the path of a library that puts the allocator into any program on PyTorch or LibTorch: "
        "LD_PRELOAD=$(frugal-alloc preload) ./program. frugal-alloc run --preload ./program does the same.",
    ).parse_args(arguments)
    print(run_program.preloaded_library())
    return 0
