"""Runs a program as Python itself would, after the allocator has been put in place; and sees to its children."""

from __future__ import annotations

import builtins
import importlib.util
import os
import re
import runpy
import shutil
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any, NoReturn

from .._common import installation, startup
from .._common.messages import Refused

PRELOADED = "frugal_alloc_preload.so"


def check(program: str, is_module: bool) -> None:
    """Raises Refused where it is plain, without importing anything, that the program cannot be run."""
    if is_module:
        _set_search_folder(os.getcwd())
        if importlib.util.find_spec(program.split(".")[0]) is None:
            raise Refused(f"no module named {program}")
        return
    try:
        if not os.path.isdir(program):
            open(program, "rb").close()
        elif not os.path.isfile(os.path.join(program, "__main__.py")):
            raise Refused(f"{program} is a folder without a __main__.py")
        if re.fullmatch(r"python[\d.]*", os.path.basename(program)):
            raise Refused("leave out `python`: frugal-alloc run train.py, or frugal-alloc run -m module")
        if not _is_pythons(program):
            raise Refused(f"{program} is not a Python program; run it with frugal-alloc run --preload {program}")
    except OSError as error:
        raise Refused(f"cannot open {program}: {error.strerror}") from None


def find(program: str) -> str:
    """The file of a script: `program` itself, or else what a shell would find by this name."""
    if os.path.exists(program) or os.sep in program:
        return program
    return shutil.which(program) or program


def enable_in_children() -> None:
    """Lets Python programs that this process starts from now on, however, enable the allocator as they import torch."""
    os.environ["FRUGAL_ALLOC"] = "1"
    startup.add("allocator", os.environ)


def preloaded_library() -> Path:
    """The library for LD_PRELOAD.

    Raises:
        Refused: there is none, or the dynamic linker could not read its path.
    """
    library = installation.LIBRARIES / PRELOADED
    if not library.is_file():
        raise Refused(f"there is no {library}; install frugal_alloc again in this environment")
    if any(separator in str(library) for separator in ": "):
        raise Refused(f"LD_PRELOAD takes no path with a colon or a space; install frugal_alloc elsewhere: {library}")
    return library


def become(command: Sequence[str], is_turned_off: bool) -> NoReturn:
    """Replaces this process by the command, a program of any kind, with the library for LD_PRELOAD.

    Raises:
        Refused: there is no such program, or no library.
    """
    environment = dict(os.environ)
    if not is_turned_off:
        startup.prepend(environment, "LD_PRELOAD", str(preloaded_library()))
    sys.stdout.flush()
    try:
        os.execvpe(command[0], list(command), environment)
    except OSError as error:
        raise Refused(f"{command[0]} cannot be run: {error.strerror}") from None


def run_script(script: str, arguments: list[str]) -> None:
    """As ``python SCRIPT ARGUMENTS``. What the program raises, SystemExit included, comes out of here."""
    _hide_our_frames()
    sys.argv = [script, *arguments]
    if not _is_source(script):
        runpy.run_path(script, run_name="__main__")
        return
    _set_search_folder(os.path.dirname(os.path.realpath(script)))
    path = os.path.abspath(script)
    with open(script, "rb") as file:
        source = file.read()
    _execute(compile(source, path, "exec"), __file__=path, __loader__=SourceFileLoader("__main__", path))


def run_module(name: str, arguments: list[str]) -> None:
    """As ``python -m NAME ARGUMENTS``. What the program raises, SystemExit included, comes out of here.

    Raises:
        Refused: there is no such module in the package, or it cannot be run.
    """
    spec = _find_module(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _find_module(f"{name}.__main__")
    code = spec.loader.get_code(spec.name) if spec is not None and hasattr(spec.loader, "get_code") else None
    if code is None:
        raise Refused(f"no module named {name}, or none that can be run")
    _hide_our_frames()
    sys.argv = [spec.origin or name, *arguments]
    _execute(
        code,
        __file__=spec.origin,
        __cached__=spec.cached,
        __loader__=spec.loader,
        __package__=spec.parent,
        __spec__=spec,
    )


def _find_module(name: str) -> ModuleSpec | None:
    """Imports the packages that it is in."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return None
        raise


def _execute(code: types.CodeType, **attributes: Any) -> None:
    # By hand, since runpy's public functions take the module away again when the program ends: its exit handlers,
    # threads and pickles still need it.
    module = types.ModuleType("__main__")
    module.__dict__.update({"__builtins__": builtins, "__cached__": None, **attributes})
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def _set_search_folder(folder: str) -> None:
    # Python looks beside the program first, unless it was told to be safe (-P, PYTHONSAFEPATH).
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _is_source(script: str) -> bool:
    """False: a folder or a zip archive with a __main__.py, or compiled code."""
    if os.path.isdir(script):
        return False
    with open(script, "rb") as file:
        start = file.read(4)
    return start not in (b"PK\x03\x04", importlib.util.MAGIC_NUMBER)


def _is_pythons(program: str) -> bool:
    """False: machine code, or a script that names another interpreter in its first line."""
    if os.path.isdir(program):
        return True
    with open(program, "rb") as file:
        first, second = file.readline(4096), file.readline(4096)
    if first.startswith(b"#!"):
        # pip's scripts for long paths begin as a shell script that hands over to Python in its second line.
        return b"python" in first or b"pypy" in first or second.startswith(b"'''exec' ")
    return not first.startswith(b"\x7fELF")


def _hide_our_frames() -> None:
    """Starts the traceback of an exception that ends the program at the program's own first frame.

    The exception goes on through us to the interpreter, which then ends as it always does: status, signal, handlers.
    """
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        theirs = trace
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == __file__:
                theirs = trace.tb_next
            trace = trace.tb_next
        while theirs is not None and "runpy" in theirs.tb_frame.f_code.co_filename:
            theirs = theirs.tb_next
        previous(kind, error.with_traceback(theirs), theirs)

    sys.excepthook = hook
