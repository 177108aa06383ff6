"""Frames that run no more: the traceback of an exception keeps them, and all that their variables hold."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any

from . import live_objects, roots

# What a frame has beside its variables: others have it, too.
_NO_VARIABLES = (FrameType, TracebackType, CodeType, ModuleType)


def living() -> set[int]:
    """The ids of frames that run, on any thread, or wait in a generator."""
    waiting = live_objects.of_kinds(*roots.WAITING)
    found = {id(frame) for one in waiting if (frame := roots.frame_of_waiting(one)) is not None}
    # `frame` ends as None: see roots.
    for frame in sys._current_frames().values():
        while frame is not None:
            found.add(id(frame))
            frame = frame.f_back
    return found


def traceback_of(keeper: Any) -> TracebackType | None:
    """Of an exception, or itself; no code of the exception's class is asked."""
    return keeper if type(keeper) is TracebackType else BaseException.__traceback__.__get__(keeper)  # type: ignore[attr-defined]


def ended(keeper: Any, living: set[int]) -> list[FrameType]:
    """The frames of an exception, or of a traceback, that run no more, the outermost first."""
    found, traceback = [], traceback_of(keeper)
    while traceback is not None:
        if id(traceback.tb_frame) not in living:
            found.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return found


def held_by(frames: Iterable[FrameType]) -> list[Any]:
    """What their variables hold, once for each reference; cells as they are."""
    return [
        part
        for frame in frames
        for part in gc.get_referents(frame)
        if gc.is_tracked(part) and not issubclass(type(part), _NO_VARIABLES)
    ]


def keepers() -> list[Any]:
    """The tracebacks that no exception has any more, and the exceptions that have tracebacks."""
    found = live_objects.of_kinds(BaseException, TracebackType)
    tracebacks = [one for one in found if type(one) is TracebackType]
    errors = [one for one in found if type(one) is not TracebackType and traceback_of(one) is not None]
    inner = {id(traceback_of(error)) for error in errors} | {id(traceback.tb_next) for traceback in tracebacks}
    return [*(traceback for traceback in tracebacks if id(traceback) not in inner), *errors]


def handled() -> list[BaseException]:
    """The exceptions that threads handle at this moment, the innermost ones."""
    found = sys._current_exceptions().values()
    errors = [one[1] if isinstance(one, tuple) else one for one in found]
    return [error for error in errors if error is not None]


def with_causes(error: BaseException) -> dict[str, BaseException]:
    """An exception and those that it was raised from, or during, the latest first.

    By what is to be written after the name of the first: "", ".__cause__".
    """
    found: dict[str, BaseException] = {}
    waiting: list[tuple[str, BaseException | None]] = [("", error)]
    while waiting:
        name, one = waiting.pop(0)
        if one is not None and not any(one is known for known in found.values()):
            found[name] = one
            waiting += [(f"{name}.__cause__", one.__cause__), (f"{name}.__context__", one.__context__)]
    return found
