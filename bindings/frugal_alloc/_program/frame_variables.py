"""What the variables of a frame that runs hold, read without changing or keeping any of them.

Up to Python 3.12 a function's frame has, besides its variables, a dictionary of them (``f_locals``), brought up to date
whenever somebody asks for it. It would hold each value until the function ends. What ``exec()`` has made is in it
alone; and when a function that traces or profiles returns, Python copies it back into the variables.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

_CO_OPTIMIZED = 1
# What handlers, tracers and profilers are called with, and one more.
_MOST_ARGUMENTS = 4


def variables(frame: FrameType, callee: dict[str, Any] | None = None) -> dict[str, Any]:
    """The variables that have a value, by name.

    Args:
        frame: One that runs, has ended, or waits.
        callee: The variables of the frame that it has called, if there is one.

    Returns:
        A dictionary of the caller's own. It is empty on Python 3.10 and 3.11 where a debugger or a profiler may be
        at work on the frame: reading its variables there would undo the debugger's changes.
    """
    if not frame.f_code.co_flags & _CO_OPTIMIZED:
        found = frame.f_locals
        # While a comprehension of a module runs, Python 3.13 has the comprehension's variables there.
        return dict(frame.f_globals if type(found).__name__ == "FrameLocalsProxy" else found)
    if sys.version_info >= (3, 13):
        return dict(frame.f_locals)
    if sys.version_info >= (3, 12):
        return _one_by_one(frame)
    # What traces or profiles a frame is called with it.
    if sys.gettrace() is not None or frame.f_trace is not None or is_among((callee or {}).values(), frame):
        return {}
    return _by_dictionary(frame)


def _names(frame: FrameType) -> tuple[str, ...]:
    code = frame.f_code
    return tuple(dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)))


def _one_by_one(frame: FrameType) -> dict[str, Any]:
    found = {}
    for name in _names(frame):
        try:
            found[name] = _get_variable(frame, name)
        except NameError:  # it has no value now
            continue
    return found


def _by_dictionary(frame: FrameType) -> dict[str, Any]:
    kept = frame.f_locals
    found = dict(kept)
    # Held by the frame, by us, and by the call that counts: locals() gives the program the same dictionary.
    if sys.getrefcount(kept) <= 3:
        # Not all of it: what is no variable is there alone. A variable is put there again for whoever asks next.
        for name in _names(frame):
            kept.pop(name, None)
    return found


def is_among(values: Iterable[Any], frame: FrameType) -> bool:
    """Whether a frame is one of the values, or of the first few of ``*arguments`` among them."""
    for value in values:
        if value is frame or (type(value) is tuple and any(one is frame for one in value[:_MOST_ARGUMENTS])):
            return True
    return False


if sys.version_info[:2] == (3, 12):
    # Not ctypes.pythonapi's own, whose types are everybody's.
    _get_variable = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)(
        ("PyFrame_GetVar", ctypes.pythonapi)
    )
