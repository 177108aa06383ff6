"""``frugal-alloc install-hook``: one line in Python's site-packages, which each interpreter runs as it starts.

Python runs the lines of ``*.pth`` files there that begin with ``import``. Ours does nothing unless FRUGAL_ALLOC is set,
which children inherit, and loads nothing of this package before.
"""

from __future__ import annotations

import os
import site
import sysconfig
from pathlib import Path

NAME = "frugal_alloc_hook.pth"

# The file stays behind when the package is uninstalled. Everything is one line, as Python wants it.
_LINE = """import os; os.environ.get("FRUGAL_ALLOC", "0") in ("", "0") or exec({program!r})\n"""
_PROGRAM = """\
import sys
try:
    from frugal_alloc import _at_startup, _enabling
except ImportError:
    print("frugal_alloc: not used: the package is not installed here any more; remove {path}", file=sys.stderr)
else:
    _enabling.enable_after_torch(_at_startup)
"""


class HookError(Exception):
    """The hook cannot be installed or removed; the message says why and what to do."""


def path() -> Path:
    """Where the hook of this interpreter is, or would be."""
    return Path(sysconfig.get_path("purelib")) / NAME


def is_installed() -> bool:
    return path().is_file()


def install() -> Path:
    """Writes the hook; returns where. Writing it again does no harm.

    Raises:
        HookError: it cannot be written, or Python would not look there.
    """
    target = path()
    if os.path.realpath(target.parent) not in map(os.path.realpath, site.getsitepackages()):
        raise HookError(f"Python does not look at {target.parent} as it starts; use a virtual environment")
    line = _LINE.format(program=_PROGRAM.format(path=target))
    try:
        # In one step: an interpreter may be starting right now.
        written = target.with_suffix(f".{os.getpid()}")
        written.write_text(line)
        written.replace(target)
    except OSError as error:
        raise HookError(
            f"cannot write {target}: {error.strerror}; use a virtual environment that you may change"
        ) from None
    return target


def remove() -> Path | None:
    """Removes the hook; returns where it was, None if there was none.

    Raises:
        HookError: it is there and cannot be removed.
    """
    target = path()
    try:
        target.unlink()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HookError(f"cannot remove {target}: {error.strerror}") from None
    return target
