"""What finders of advice look at, and what they return: the Python frames of the thread that ran out of memory, what
their variables hold, and who owns that.

Nothing here outlives the explanation: a frame that is kept keeps all of its variables alive, on the GPU too.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import Counter
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from .._heap import ended_frames
from .._program.frame_variables import variables
from .._program.source import Statement, statements
from .._program.users_code import OURS, is_users, owner
from . import optimizer_state
from .ownership import Ownership

if TYPE_CHECKING:
    from .._native import Library
    from .._native.out_of_memory import OutOfMemory

# Less is not worth a change to a program.
LEAST_BYTES = 1 << 20

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


class Scene:
    """An error of this moment, as the finders see it.

    Attributes:
        held: By the id of a value, how many references the frames' copies have, which are nobody else's.
    """

    def __init__(self, facts: OutOfMemory, library: Library) -> None:
        self.facts = facts
        self.library = library
        self.frames = frames()
        self.ownership = Ownership(facts.gpu)
        self.held = Counter(id(value) for frame in self.frames for value in frame.values.values())

    @functools.cached_property
    def optimizers(self) -> list[Any]:
        """All that there are."""
        return optimizer_state.living()

    @functools.cached_property
    def living_frames(self) -> set[int]:
        """The ids of the frames that have not ended."""
        return ended_frames.living()

    @property
    def users_frames(self) -> list[RunningFrame]:
        return [frame for frame in self.frames if frame.is_users]

    def let_go(self) -> None:
        """What the frames' variables hold is held no more."""
        for frame in self.frames:
            frame.values.clear()


class Advice(NamedTuple):
    """One thing to change, with what it brings. But for the rank, the names are those of a report's "advice"."""

    text: str
    file: str | None
    line: int | None
    bytes: int  # that it frees
    rank: int = 0  # what kind of change it is, the least first


# Ranks: it frees what is not needed; it is a library's own setting, or moves results to the host; it frees what is not
# needed just now; it is of a size that fits; it makes the step smaller.
NEEDLESS, SETTING, IDLE, BATCH, SMALLER = range(5)
