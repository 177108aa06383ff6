"""The Python frames of the thread that ran out of memory: where they are, and what their variables hold.

Nothing here outlives the explanation: a frame that is kept keeps all of its variables alive, on the GPU too.
"""

from __future__ import annotations

import linecache
import sys
import threading
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .._program.frame_variables import variables
from .._program.source import Statement, statements
from .._program.users_code import OURS, is_users, owner

_MOST_FRAMES = 200


class RunningFrame(NamedTuple):
    """One frame. `values` is a copy: what its variables hold."""

    file: str
    line: int
    function: str
    is_users: bool
    code: CodeType
    offset: int
    values: dict[str, Any]
    arguments: tuple[str, ...]

    @property
    def source(self) -> str:
        return linecache.getline(self.file, self.line).strip()


def frames() -> list[RunningFrame]:
    """Those of this thread, innermost first, without ours; of the thread that waits for backward where this one is
    autograd's."""
    found = _walk(sys._getframe(1))
    if not any(frame.is_users for frame in found):
        found += _walk(_waiting_for_backward())
    return found


def innermost_line() -> tuple[str, int] | None:
    """The innermost line of the user's that this thread runs; looks at no variables."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def _walk(frame: FrameType | None) -> list[RunningFrame]:
    found: list[RunningFrame] = []
    values: dict[str, Any] = {}
    while frame is not None and len(found) < _MOST_FRAMES:
        code = frame.f_code
        if owner(code.co_filename) == OURS:
            values = {}
        else:
            values = variables(frame, callee=values)
            found.append(
                RunningFrame(
                    code.co_filename,
                    frame.f_lineno or code.co_firstlineno,
                    getattr(code, "co_qualname", code.co_name),
                    is_users(code.co_filename),
                    code,
                    frame.f_lasti,
                    values,
                    code.co_varnames[: code.co_argcount + code.co_kwonlyargcount],
                )
            )
        frame = frame.f_back
    return found


def _waiting_for_backward() -> FrameType | None:
    """The innermost frame of the thread that has called the autograd engine; None unless there is exactly one."""
    own, waiting = threading.get_ident(), []
    for thread, frame in sys._current_frames().items():
        if thread != own and frame.f_code.co_name == "_engine_run_backward":
            waiting.append(frame)
    return waiting[0] if len(waiting) == 1 else None


def statement(frame: RunningFrame) -> Statement | None:
    """The statement that the frame executes; None: the source is not there, or is not what runs."""
    spans = statements(frame.file, frame.code.co_name, frame.code.co_firstlineno)
    covering = [span for span in spans if span.first <= frame.line <= span.last]
    return max(covering, key=lambda span: span.first, default=None)
