"""``frugal-alloc install-hook``: one line in Python's site-packages, which each interpreter runs as it starts.

Python runs the lines of ``*.pth`` files there that begin with ``import``. Ours does nothing unless FRUGAL_ALLOC is set,
which children inherit; then it loads one small file by its path, since to import the package costs ten times as much.
"""

from __future__ import annotations

import argparse
import os
import site
import sys
import sysconfig
from pathlib import Path

from .._common import whole_files
from .._common.arguments import Parser
from .._common.messages import Refused

NAME = "frugal_alloc_hook.pth"

# The file stays behind when the package is uninstalled. Everything is one line, as Python wants it, and ASCII: the
# file is read in the encoding of the locale that an interpreter starts in, which need not be this one's. Hence paths as
# bytes.
_LINE = """import os; os.environ.get("FRUGAL_ALLOC", "0") in ("", "0") or exec({program!a})\n"""
_PROGRAM = """\
import os, sys
from importlib.machinery import SourceFileLoader
module = type(sys)("frugal_alloc_startup")
module.__file__ = os.fsdecode({startup!r})
try:
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
except OSError:
    hook = os.fsdecode({path!r})
    print("frugal_alloc: not used: the package is not installed here any more; remove " + hook, file=sys.stderr)
else:
    module.enable_after_torch()
"""


def path() -> Path:
    """Where the hook of this interpreter is, or would be."""
    return Path(sysconfig.get_path("purelib")) / NAME


def is_installed() -> bool:
    return path().is_file()


def install() -> Path:
    """Writes the hook; returns where. Writing it again does no harm.

    Raises:
        Refused: it cannot be written, or Python would not look there.
    """
    target = path()
    if os.path.realpath(target.parent) not in map(os.path.realpath, site.getsitepackages()):
        raise Refused(f"Python does not look at {target.parent} as it starts; use a virtual environment")
    startup = Path(__file__).resolve().parents[1] / "_common" / "startup" / "__init__.py"
    line = _LINE.format(program=_PROGRAM.format(startup=os.fsencode(startup), path=os.fsencode(target)))
    try:
        # In one step: an interpreter may be starting right now.
        whole_files.write(str(target), line.encode("ascii"))
    except OSError as error:
        what = f"cannot write {target}: {error.strerror}"
        raise Refused(f"{what}; use a virtual environment that you may change") from None
    return target


def remove() -> Path | None:
    """Removes the hook; returns where it was, None if there was none.

    Raises:
        Refused: it is there and cannot be removed.
    """
    target = path()
    try:
        target.unlink()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"cannot remove {target}: {error.strerror}") from None
    return target


def add_install(parser: Parser) -> None:
    parser.description = (
        "Adds a line to this Python's site-packages: programs that are started with FRUGAL_ALLOC=1, and the Python "
        "processes that they start, enable the allocator when they import torch. All others are as before."
    )


def carry_out_install(options: argparse.Namespace) -> int:
    written = install()
    print(f"wrote {written}\nprograms of {sys.executable} started with FRUGAL_ALLOC=1 use the allocator from now on")
    return 0


def add_remove(parser: Parser) -> None:
    parser.description = "Undoes install-hook."


def carry_out_remove(options: argparse.Namespace) -> int:
    removed = remove()
    print(f"removed {removed}" if removed else f"there is none: {path()}")
    return 0
