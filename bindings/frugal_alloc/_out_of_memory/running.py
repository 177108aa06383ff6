"""The Python frames of the thread that ran out of memory: where they are, and what their variables hold.

Nothing here outlives the explanation: a frame that is kept keeps all of its variables alive, on the GPU too.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .._program.frame_variables import variables
from .._program.users_code import OURS, is_users, owner

# A file of more lines is not parsed: the error must not take long.
_MOST_LINES = 20_000
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


class Statement(NamedTuple):
    first: int
    last: int
    is_loop_header: bool


def statement(frame: RunningFrame) -> Statement | None:
    """The lines of the statement that the frame executes, of a compound one the header's; None: the source is not
    there, or is not what runs."""
    spans = _statements(frame.file, frame.code.co_name, frame.code.co_firstlineno)
    covering = [span for span in spans if span.first <= frame.line <= span.last]
    return max(covering, key=lambda span: span.first, default=None)


@functools.lru_cache(maxsize=64)
def _statements(file: str, function: str, first_line: int) -> list[Statement]:
    """All statements of one function, or of a module. Its own only: what is nested has other variables."""
    tree = parse(file)
    if tree is None:
        return []
    scope: ast.AST | None = tree
    if function != "<module>":
        scope = next((node for node in ast.walk(tree) if _is_function(node, function, first_line)), None)
    return [] if scope is None else list(_spans(scope))


@functools.lru_cache(maxsize=8)
def parse(file: str) -> ast.Module | None:
    """None: the source is not there, or is too long."""
    lines = linecache.getlines(file)
    if not 0 < len(lines) <= _MOST_LINES:
        return None
    try:
        return ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def forget_sources() -> None:
    """Trees of files are large; those of another error are read again."""
    parse.cache_clear()


def _is_function(node: ast.AST, name: str, first_line: int) -> bool:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != name:
        return False
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) == first_line


def _spans(scope: ast.AST) -> Iterator[Statement]:
    waiting = list(getattr(scope, "body", []))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            nested = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            last = node.end_lineno or node.lineno
            if isinstance(body, list) and body and not nested:
                last = max(node.lineno, body[0].lineno - 1)
            yield Statement(node.lineno, last, isinstance(node, (ast.For, ast.AsyncFor, ast.While)))
            if nested:
                continue
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, field, []))
