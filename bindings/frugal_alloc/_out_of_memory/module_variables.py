"""Which variables of a module its functions may still read. A function that is called no more reads nothing.

A function counts as called no more if the module's code after the line that runs does not name it, nor does any other
function that may still be called. That can only be known of a function whose name is used for calls alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import CodeType

from .._program.liveness import Flow, read_in_nested, reads_of
from .._program.source import Statement, only_called
from .running import RunningFrame

# Their code runs within the call that makes them.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
_RUNS_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def flow_of(frame: RunningFrame, now: Statement, frames: Iterable[RunningFrame]) -> Flow:
    """The flow of a module's code, whose functions read what they may still read.

    Args:
        frame: Of the module.
        now: The statement that it runs.
        frames: All that run.
    """
    flow = Flow(frame.code)
    codes = [constant for constant in frame.code.co_consts if isinstance(constant, CodeType)]
    called_only = only_called(frame.file)
    running = {one.code for one in frames}
    waiting = [code for code in codes if code.co_name in called_only and code not in running and _is_done(code)]
    read: set[str] = set()
    for code in codes:
        if code not in waiting:
            read |= _read_by(code)
    read |= flow.read_here_after(frame.offset) | flow.read_in_lines(now.first, now.last)
    while called := [code for code in waiting if code.co_name in read]:
        waiting = [code for code in waiting if code not in called]
        read = read.union(*map(_read_by, called))
    flow.always_read = flow.always_read - read_in_nested(frame.code) | (read & read_in_nested(frame.code))
    return flow


def _read_by(code: CodeType) -> frozenset[str]:
    return reads_of(code) | read_in_nested(code)


def _is_done(code: CodeType) -> bool:
    """Whether nothing of a function runs once its call has returned."""
    nested = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return not code.co_flags & _RUNS_LATER and all(inner.co_name in _COMPREHENSIONS for inner in nested)
