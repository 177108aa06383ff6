"""Variables of the running frames whose memory could be let go earlier, and what that would free."""

from __future__ import annotations

import gc
import os
import types
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any, NamedTuple

from .._common.messages import format_bytes as size
from .._heap import ended_frames, live_objects, raw_objects, roots
from .._heap.live_tensors import is_on, is_tensor
from .._program.code_lines import short_path
from .._program.liveness import Flow, is_function, module_variables, nested
from .._program.source import Statement, only_called
from .kept import line_that_adds
from .scene import IDLE, LEAST_BYTES, Advice, RunningFrame, Scene, statement

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
    # A class keeps what its body binds.
    is_module = not is_function(frame.code)
    if now is None or (is_module and not _is_program(frame)):
        return None
    flow = flow_of_module(frame, now, scene.frames) if is_module else Flow(frame.code)
    dead = flow.dead(frame.values, frame.offset, now.first, now.last)
    names = [name for name in dead if holds_gpu_memory(frame.values[name], scene)][:_MOST_NAMES]
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
        if holds_gpu_memory(frame.values[name], scene):
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


def holds_gpu_memory(value: Any, scene: Scene) -> bool:
    """Whether the GPU's tensors, or results of autograd, are within reach of a value."""
    gpu = scene.facts.gpu
    return any(is_tensor(part) and is_on(part, gpu) for part in _within(value, scene, through_frames=True))


def reached(value: Any, scene: Scene) -> set[int]:
    """The ids of what is within reach of a value, by other ways than the variables of functions that have ended."""
    return {id(part) for part in _within(value, scene, through_frames=False)}


def _within(value: Any, scene: Scene, through_frames: bool) -> Iterator[Any]:
    """A value and what it has; models with all their parts, but other things to some depth."""
    import torch

    waiting: list[tuple[Any, int]] = [(value, 0)]
    for _ in range(_MOST_CONTAINED):
        if not waiting:
            return
        value, depth = waiting.pop()
        yield value
        kind = type(value)
        if is_tensor(value) or depth >= _DEPTH or not gc.is_tracked(value) or issubclass(kind, OPAQUE):
            continue
        if kind is types.TracebackType:
            frames = ended_frames.ended(value, scene.living_frames) if through_frames else []
            # A traceback is as deep as its stack.
            waiting += [(part, 1) for part in ended_frames.held_by(frames)]
            continue
        parts = gc.get_referents(value)
        if any(kind is one for one in roots.WAITING) and (frame := roots.frame_of_waiting(value)) is not None:
            parts += ended_frames.held_by([frame])
        waiting += [(part, depth + 1) for part in parts if gc.is_tracked(part)]
        if issubclass(kind, torch.nn.Module):
            attributes = raw_objects.dictionary_of(value) or {}
            members = (attributes.get(name, {}) for name in ("_modules", "_buffers", "_parameters"))
            waiting += [(part, depth) for parts in members for part in parts.values() if part is not None]


def flow_of_module(frame: RunningFrame, now: Statement, frames: Iterable[RunningFrame]) -> Flow:
    """The flow of a module's code, in which what functions read is what those read that can still run.

    A function can still run if it does, or waits as a generator; if it is yet to be made, by the module or by one that
    can run; or if it is there, unless its name is used for calls alone and nothing that can run has one.

    Args:
        frame: Of the module.
        now: The statement that it runs.
        frames: All that run.
    """
    flow = Flow(frame.code)
    called_only = only_called(frame.file)
    there, run = _living_functions()
    run.update(map(_key, (other.code for other in frames)))
    run.update(map(_key, flow.made_after(frame.offset, now.first, now.last)))
    own = set(map(_key, (code for code in frame.code.co_consts if isinstance(code, CodeType))))
    read = flow.read_here_after(frame.offset) | flow.read_in_lines(now.first, now.last)
    waiting, flow.always_read = list(nested(frame.code)), set(flow.changed)

    def can_run(code: CodeType) -> bool:
        is_needed = code.co_name in read or code.co_name not in called_only or _key(code) not in own
        return _key(code) in run or (_key(code) in there and is_needed)

    while called := [code for code in waiting if can_run(code)]:
        waiting = [code for code in waiting if not can_run(code)]
        for code in called:
            run.update(map(_key, nested(code)))
            flow.always_read |= module_variables(code)
        read |= flow.always_read
    return flow


def _key(code: CodeType) -> tuple:
    """The same for the copies of a function's code that tools make."""
    return code.co_filename, code.co_firstlineno, code.co_name


def _living_functions() -> tuple[set[tuple], set[tuple]]:
    """Of the functions that there are, and of those that wait as generators."""
    there, waiting = set(), set()
    # A class may have a comparison of its own.
    of_waiting = set(map(id, roots.WAITING))
    for value in live_objects.all_of_them():
        if type(value) is types.FunctionType:
            there.add(_key(value.__code__))
        elif id(type(value)) in of_waiting and roots.frame_of_waiting(value) is not None:
            waiting.add(_key(roots.code_of_waiting(value)))
    return there, waiting
