"""Variables of the running frames whose memory could be let go earlier, and what that would free."""

from __future__ import annotations

import gc
import os
import types
from collections import Counter
from typing import Any, NamedTuple

from .._common.messages import format_bytes as size
from .._program.code_lines import short_path
from .._program.liveness import Flow
from . import graphs, module_variables
from .advice import LEAST_BYTES, Advice
from .ownership import Ownership
from .running import RunningFrame, Statement, statement

_MOST_NAMES = 12
# How deep a variable's lists, dictionaries and objects are searched for tensors.
_DEPTH = 4
_MOST_CONTAINED = 2_000
# They lead to everything.
OPAQUE = (type, types.FunctionType, types.MethodType, types.ModuleType, types.FrameType)


class DeadVariables(NamedTuple):
    """Variables of one frame that nothing reads before they are bound again, and that still hold memory."""

    names: tuple[str, ...]
    file: str
    statement: Statement
    bytes: int  # freed if all of them are let go before the statement
    rebound: tuple[str, ...]  # those that the statement binds to a new value
    surely_bound: bool  # False: `del` would fail where they have no value yet
    in_loop: bool

    def advice(self, has_pools: bool) -> Advice:
        """`has_pools`: whether there are pools of graphs or of the program."""
        text = f"{self._change()} of {short_path(self.file)} frees {size(self.bytes)}"
        if self.rebound and len(self.names) == len(self.rebound):
            text += ": the line makes the new one while the old one is still there"
        if has_pools:
            text += "; not what a CUDA graph reads that is replayed later"
        return Advice(text, self.file, self.statement.first, self.bytes)

    def _change(self) -> str:
        names, line = ", ".join(self.names), self.statement.first
        if self.statement.is_loop_header:
            return f"{_assigned_none(self.names)} as the last line of the loop at line {line}"
        if self.surely_bound:
            return f"del {names} before line {line}"
        return f"{_assigned_none(self.names)} before line {line}"


def _assigned_none(names: tuple[str, ...]) -> str:
    return " = ".join(names) + " = None"


def find_dead(frames: list[RunningFrame], gpu: int, ownership: Ownership) -> list[DeadVariables]:
    """In the user's frames, those with the most bytes first."""
    held = Counter(id(value) for frame in frames for value in frame.values.values())
    found = [
        dead
        for frame in frames
        if frame.is_users and (dead := _dead_in(frame, frames, held, gpu, ownership)) is not None
    ]
    return sorted(found, key=lambda dead: -dead.bytes)


def _dead_in(
    frame: RunningFrame, frames: list[RunningFrame], held: Counter[int], gpu: int, ownership: Ownership
) -> DeadVariables | None:
    now = statement(frame)
    is_module = frame.function == "<module>"
    if now is None or (is_module and not _is_program(frame)):
        return None
    flow = module_variables.flow_of(frame, now, frames) if is_module else Flow(frame.code)
    dead = flow.dead(frame.values, frame.offset, now.first, now.last)
    names = [name for name in dead if holds_gpu_memory(frame.values[name], gpu)][:_MOST_NAMES]
    if not names:
        return None
    names, freed = _smallest_set(frame, names, held, ownership)
    if freed < LEAST_BYTES:
        return None
    bound = all(
        flow.surely_bound(n, now.first, now.last, n in frame.arguments) and n not in flow.deleted for n in names
    )
    rebound = tuple(name for name in names if name in flow.written_in_lines(now.first, now.last))
    return DeadVariables(tuple(names), frame.file, now, freed, rebound, bound, flow.in_loop(frame.offset))


def _is_program(frame: RunningFrame) -> bool:
    """Whether nobody but a module itself reads its variables: a notebook's may be read by the next cell, and those of a
    module that is imported by whoever imports it."""
    return frame.values.get("__name__") == "__main__" and os.path.isfile(frame.file)


def find_idle(frames: list[RunningFrame], gpu: int, ownership: Ownership) -> list[Advice]:
    """About tensors, and lists of them, that the innermost of the user's frames holds over its statement: they are read
    again, but not by it."""
    frame = next((frame for frame in frames if frame.is_users), None)
    now = None if frame is None else statement(frame)
    if frame is None or now is None:
        return []
    held = Counter(id(value) for one in frames for value in one.values.values())
    flow = Flow(frame.code)
    later = flow.read_after(frame.offset) - flow.read_in_lines(now.first, now.last)
    found = []
    # By name: a variable of ours would be one more that holds the value.
    for name in later & frame.values.keys():
        if _is_plain(frame.values[name]) and holds_gpu_memory(frame.values[name], gpu):
            freed = ownership.freed_by_dropping([frame.values[name]], held)
            if freed >= LEAST_BYTES:
                text = (
                    f"`{name}` ({size(freed)}) is not needed while line {now.first} of {short_path(frame.file)} runs: "
                    "make it afterwards, or keep it on the host until then"
                )
                found.append(Advice(text, frame.file, now.first, freed))
    return sorted(found, key=lambda idle: -idle.bytes)


def _is_plain(value: Any) -> bool:
    return graphs.is_tensor(value) or type(value) in (list, tuple, dict)


def _smallest_set(
    frame: RunningFrame, names: list[str], held: Counter[int], ownership: Ownership
) -> tuple[list[str], int]:
    """The names without those that free nothing, and what they free together."""

    def freed(chosen: list[str]) -> int:
        return ownership.freed_by_dropping([frame.values[name] for name in chosen], held)

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
        if graphs.is_tensor(value):
            if value.device.type == "cuda" and value.device.index == gpu:
                return True
        elif depth < _DEPTH and gc.is_tracked(value) and not issubclass(type(value), OPAQUE):
            waiting += [(inner, depth + 1) for inner in gc.get_referents(value) if gc.is_tracked(inner)]
    return False
