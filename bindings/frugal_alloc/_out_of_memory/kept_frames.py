"""What functions that have failed still hold, because an exception keeps their frames."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Set
from types import FrameType
from typing import Any, NamedTuple

from .._common.messages import format_bytes as size
from .._heap import ended_frames
from .._heap.live_tensors import is_tensor
from .._program import source
from .._program.code_lines import short_path, written
from .._program.liveness import Flow
from .._program.users_code import is_users
from .kept import named
from .scene import LEAST_BYTES, Advice, Scene
from .variables import DeadVariables, holds_gpu_memory, reached

#: Where Python has the latest error that nothing caught, and IPython that of the latest cell.
_LAST = ("last_exc", "last_value", "last_traceback")
# The latest ones: a program may have stored thousands of errors.
_MOST_KEEPERS = 50


class Place(NamedTuple):
    """By what an exception is kept."""

    name: str  # of a variable, or as in "sys.last_value.__traceback__"; "": it is being handled, or is not known
    file: str | None
    line: int | None  # that runs where it is handled
    is_exception: bool = True  # False: it is something in what the name has


class KeptFrames(NamedTuple):
    place: Place
    function: str  # that has failed
    bytes: int  # freed with the frames
    graph_bytes: int  # of these, in graphs of autograd's

    @property
    def keeper(self) -> str:
        if self.place.file and self.place.line:
            return f"the exception that is handled at {written(self.place.file, self.place.line)}"
        return f"`{self.place.name}`" if self.place.name else "an exception"

    @property
    def advice(self) -> Advice:
        name, file, line, is_exception = self.place
        held = f"the variables of {self.function}, which has failed"
        if file and line:
            text = (
                f"move line {line} of {short_path(file)} out of its `except` block, to run after it: this frees "
                f"{size(self.bytes)}, since until then the exception keeps {held}"
            )
        elif name.startswith("sys."):
            text = f"traceback.clear_frames({name}) frees {size(self.bytes)}: it keeps {held}"
        elif name and is_exception:
            text = f"`{name}` keeps {held} ({size(self.bytes)}): set it to None, or keep its text alone"
        else:
            text = (
                f"{self.keeper} keeps {held} ({size(self.bytes)}): let go of it, keep str(error) alone, or call "
                "traceback.clear_frames(error.__traceback__) once the error is caught"
            )
        return Advice(text, file, line, self.bytes)


def find_kept_frames(scene: Scene, dead: Iterable[DeadVariables]) -> list[KeptFrames]:
    """Those that hold much, the most first, but for what dead variables keep."""
    known = {(variables.file, name) for variables in dead for name in variables.names}
    holding = {}
    for keeper in ended_frames.keepers()[-_MOST_KEEPERS:]:
        ended = ended_frames.ended(keeper, scene.living_frames)
        if any(holds_gpu_memory(part, scene) for part in ended_frames.held_by(ended)):
            holding[id(keeper)] = keeper, ended
    named_places = _named_places(holding.keys(), scene) if holding else {}
    frames: dict[Place, dict[int, FrameType]] = {}
    for number, (keeper, ended) in holding.items():
        # A name goes before a handler: to leave that would not be enough.
        place = _last_error(keeper) or named_places.get(number) or _handler_of(keeper, scene)
        if (place.file, place.name) not in known:
            frames.setdefault(place, {}).update((id(frame), frame) for frame in ended)
    found = [_kept(place, list(of_place.values()), scene) for place, of_place in frames.items()]
    return sorted((kept for kept in found if kept.bytes >= LEAST_BYTES), key=lambda kept: -kept.bytes)


def _kept(place: Place, frames: list[FrameType], scene: Scene) -> KeptFrames:
    freed = scene.ownership.freed_by_dropping(ended_frames.held_by(frames), scene.held)
    results = [part for part in ended_frames.held_by(frames) if is_tensor(part) and part.grad_fn is not None]
    in_graphs = scene.ownership.freed_by_detaching(results)
    holding = [
        frame for frame in frames if any(holds_gpu_memory(part, scene) for part in ended_frames.held_by([frame]))
    ]
    holding.reverse()
    code = next((frame.f_code for frame in holding if is_users(frame.f_code.co_filename)), holding[0].f_code)
    return KeptFrames(place, f"{code.co_name}()", freed, in_graphs)


def _last_error(keeper: Any) -> Place | None:
    for name in _LAST:
        value = getattr(sys, name, None)
        if isinstance(value, BaseException):
            for path, error in ended_frames.with_causes(value).items():
                if error is keeper:
                    return Place(f"sys.{name}{path}.__traceback__", None, None)
        elif value is keeper:
            return Place(f"sys.{name}", None, None)
    return None


def _named_places(keepers: Set[int], scene: Scene) -> dict[int, Place]:
    """By the ids of exceptions and tracebacks, the names from which they are reached."""
    found: dict[int, Place] = {}
    handled = {id(one) for error in ended_frames.handled() for one in ended_frames.with_causes(error).values()}
    for frame in scene.users_frames:
        # Python lets go of such a name as the `except` block ends.
        of_block = Flow(frame.code).deleted if handled else set()
        for name, value in named(frame):
            if name in of_block and id(value) in handled:
                continue
            for number in keepers & reached(value, scene):
                place = Place(name, frame.file, None, is_exception=id(value) == number)
                # An attribute says more than its object.
                if name.startswith(f"{found.setdefault(number, place).name}."):
                    found[number] = place
    return found


def _handler_of(keeper: Any, scene: Scene) -> Place:
    """The user's line that runs where an exception was caught, or one that was raised from it or during it."""
    chains = [list(ended_frames.with_causes(error).values()) for error in ended_frames.handled()]
    chain = next((chain for chain in chains if any(error is keeper for error in chain)), [])
    at = next((index for index, error in enumerate(chain) if error is keeper), -1)
    for error in reversed(chain[: at + 1]):
        traceback = ended_frames.traceback_of(error)
        if traceback is not None and id(traceback.tb_frame) in scene.living_frames:
            file, line = traceback.tb_frame.f_code.co_filename, traceback.tb_frame.f_lineno
            is_told = is_users(file) and source.is_in_handler(file, line)
            return Place("", file, line) if is_told else Place("", None, None)
    return Place("", None, None)
