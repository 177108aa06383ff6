"""Which variables of a module its functions may still read. A function that is called no more reads nothing.

A function counts as called no more if the module's code after the line that runs does not name it, nor does any other
function that may still be called. That can only be known of a function whose name is used for calls alone.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from types import CodeType

from .._program.liveness import Flow, read_in_nested, reads_of
from .running import RunningFrame, Statement, parse

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
    only_called = _only_called(frame.file)
    running = {one.code for one in frames}
    waiting = [code for code in codes if code.co_name in only_called and code not in running and _is_done(code)]
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


def _only_called(file: str) -> set[str]:
    """The names of the module's functions that are bound once and used for nothing but calls."""
    tree = parse(file)
    if tree is None:
        return set()
    bound: dict[str, int] = {}
    used: dict[str, int] = {}
    called: dict[str, int] = {}
    plain = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound[node.name] = bound.get(node.name, 0) + 1
            if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                plain.add(node.name)
        elif isinstance(node, ast.Name):
            counts = used if isinstance(node.ctx, ast.Load) else bound
            counts[node.id] = counts.get(node.id, 0) + 1
        elif isinstance(node, ast.alias):
            name = (node.asname or node.name).partition(".")[0]
            bound[name] = bound.get(name, 0) + 1
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called[node.func.id] = called.get(node.func.id, 0) + 1
    return {name for name in plain if bound[name] == 1 and used.get(name, 0) == called.get(name, 0)}
