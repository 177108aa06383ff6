"""Variables of the running frames whose memory could be let go earlier, and what that would free."""

from __future__ import annotations

import gc
import inspect
import os
import types
from collections.abc import Iterable
from types import CodeType
from typing import Any, NamedTuple

from .._common.messages import format_bytes as size
from .._heap.live_tensors import is_on, is_tensor
from .._program.code_lines import short_path
from .._program.liveness import Flow, read_in_nested, reads_of
from .._program.source import Statement, only_called
from .kept import line_that_adds
from .scene import IDLE, LEAST_BYTES, Advice, RunningFrame, Scene, statement

_MOST_NAMES = 12
# How deep a variable's lists, dictionaries and objects are searched for tensors.
_DEPTH = 4
_MOST_CONTAINED = 2_000
# They lead to everything.
OPAQUE = (type, types.FunctionType, types.MethodType, types.ModuleType, types.FrameType)

# Their code runs within the call that makes them.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
_RUNS_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class DeadVariables(NamedTuple):
    """Variables of one frame that nothing reads before they are bound again, and that still hold memory."""

    names: tuple[str, ...]
    file: str
    statement: Statement
    bytes: int  # freed if all of them are let go before the statement
    rebound: tuple[str, ...]  # those that the statement binds to a new value
    surely_bound: bool  # False: `del` would fail where they have no value yet

    def advice(self, has_graphs: bool) -> Advice:
        """`has_graphs`: whether there are CUDA graphs."""
        line, cleared = self.statement.first, " = ".join(self.names) + " = None"
        if self.statement.is_loop_header:
            change = f"{cleared} as the last line of the loop at line {line}"
        elif self.surely_bound:
            change = f"del {', '.join(self.names)} before line {line}"
        else:
            change = f"{cleared} before line {line}"
        text = f"{change} of {short_path(self.file)} frees {size(self.bytes)}"
        if self.rebound and len(self.names) == len(self.rebound):
            text += ": the line makes the new one while the old one is still there"
        if has_graphs:
            text += "; not what a CUDA graph reads that is replayed later"
        return Advice(text, self.file, line, self.bytes)


def find_dead(scene: Scene) -> list[DeadVariables]:
    """In the user's frames."""
    return [dead for frame in scene.users_frames if (dead := _dead_in(frame, scene)) is not None]


def _dead_in(frame: RunningFrame, scene: Scene) -> DeadVariables | None:
    now = statement(frame)
    is_module = frame.function == "<module>"
    if now is None or (is_module and not _is_program(frame)):
        return None
    flow = flow_of_module(frame, now, scene.frames) if is_module else Flow(frame.code)
    dead = flow.dead(frame.values, frame.offset, now.first, now.last)
    names = [name for name in dead if holds_gpu_memory(frame.values[name], scene.facts.gpu)][:_MOST_NAMES]
    names, freed = _smallest_set(frame, names, scene)
    if freed < LEAST_BYTES:
        return None
    bound = all(
        flow.surely_bound(n, now.first, now.last, n in frame.arguments) and n not in flow.deleted for n in names
    )
    rebound = tuple(name for name in names if name in flow.written_in_lines(now.first, now.last))
    return DeadVariables(tuple(names), frame.file, now, freed, rebound, bound)


def _is_program(frame: RunningFrame) -> bool:
    """Whether nobody but a module itself reads its variables: a notebook's may be read by the next cell, and those of a
    module that is imported by whoever imports it."""
    return frame.values.get("__name__") == "__main__" and os.path.isfile(frame.file)


def find_idle(scene: Scene) -> list[Advice]:
    """About tensors, and lists of them, that the innermost of the user's frames holds over its statement: they are read
    again, but not by it."""
    frame = next(iter(scene.users_frames), None)
    now = None if frame is None else statement(frame)
    if frame is None or now is None:
        return []
    flow = Flow(frame.code)
    later = flow.read_after(frame.offset) - flow.read_in_lines(now.first, now.last)
    idle = []
    # By name: a variable of ours would be one more that holds the value.
    for name in later & frame.values.keys():
        # What is filled on the way cannot be made afterwards.
        if not _is_plain(frame.values[name]) or line_that_adds(name, frame) is not None:
            continue
        if holds_gpu_memory(frame.values[name], scene.facts.gpu):
            freed = scene.ownership.freed_by_dropping([frame.values[name]], scene.held)
            if freed >= LEAST_BYTES:
                text = (
                    f"`{name}` ({size(freed)}) is not needed while line {now.first} of {short_path(frame.file)} runs: "
                    "make it afterwards, or keep it on the host until then"
                )
                idle.append(Advice(text, frame.file, now.first, freed, IDLE))
    return idle


def _is_plain(value: Any) -> bool:
    return is_tensor(value) or type(value) in (list, tuple, dict)


def _smallest_set(frame: RunningFrame, names: list[str], scene: Scene) -> tuple[list[str], int]:
    """The names without those that free nothing, and what they free together."""

    def freed(chosen: list[str]) -> int:
        return scene.ownership.freed_by_dropping([frame.values[name] for name in chosen], scene.held)

    total = freed(names) if names else 0
    if total < LEAST_BYTES:
        return [], 0
    for name in list(names):
        without = [other for other in names if other != name]
        # What is lost with a name is small: it need not be named.
        if without and (rest := freed(without)) > total - max(LEAST_BYTES, total // 100):
            names, total = without, rest
    return names, total


def holds_gpu_memory(value: Any, gpu: int) -> bool:
    """Whether the GPU's tensors, or results of autograd, are within reach of a value."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    for _ in range(_MOST_CONTAINED):
        if not waiting:
            return False
        value, depth = waiting.pop()
        if is_tensor(value):
            if is_on(value, gpu):
                return True
        elif depth < _DEPTH and gc.is_tracked(value) and not issubclass(type(value), OPAQUE):
            waiting += [(inner, depth + 1) for inner in gc.get_referents(value) if gc.is_tracked(inner)]
    return False


def flow_of_module(frame: RunningFrame, now: Statement, frames: Iterable[RunningFrame]) -> Flow:
    """The flow of a module's code, whose functions read what they may still read.

    A function that is called no more reads nothing: one that neither the module's code after the line that runs names,
    nor any other function that may still be called. That can only be known of a function whose name is used for calls
    alone.

    Args:
        frame: Of the module.
        now: The statement that it runs.
        frames: All that run.
    """
    flow = Flow(frame.code)
    codes = [constant for constant in frame.code.co_consts if isinstance(constant, CodeType)]
    called_only = only_called(frame.file)
    running = {other.code for other in frames}
    waiting = [code for code in codes if code.co_name in called_only and code not in running and _is_done(code)]
    read = flow.read_here_after(frame.offset) | flow.read_in_lines(now.first, now.last)
    read = read.union(*(_read_by(code) for code in codes if code not in waiting))
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
