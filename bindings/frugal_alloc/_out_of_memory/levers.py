"""How what no backward is for could be made smaller: with fewer samples at a time, in half precision, one large tensor
in pieces, or gathered on the host. What each saves is counted from what the running frames hold, or was seen before.
"""

from __future__ import annotations

import linecache
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .._common.messages import format_bytes as size
from .._heap.live_tensors import is_on, is_tensor
from .._program.code_lines import written
from .._program.liveness import Flow
from . import forward, holding_lines, kept, loading, logits, step, what_runs
from .optimizer_state import bytes_of
from .scene import SETTING, SMALLER, Advice, RunningFrame, Scene, statement
from .variables import OPAQUE, DeadVariables

if TYPE_CHECKING:
    from .._native.out_of_memory import OutOfMemory

_MOST_VALUES = 20_000
# How deep a frame's lists, dictionaries and objects are looked into: a cache of keys is a list in an object.
_DEPTH = 4
# More pieces would each be too small to be worth their calls.
_MOST_PIECES = 64
_TO_HOST = re.compile(r"\.(cpu|item|tolist|numpy)\(|\.to\(.cpu")
_GATHERING = re.compile(r"\b(cat|concat|concatenate|[hvd]?stack)\(")


class InFlight(NamedTuple):
    """What the running frames hold, parameters apart."""

    rows: int  # the first dimension that most of it has; 0: none
    row_bytes: int  # of the tensors that have it
    single_bytes: int  # in single precision, of all
    weight_bytes: int  # of parameters in single precision
    alike_bytes: int = 0  # of those that are as large as the request
    coming_bytes: int = (
        0  # that layers will need beside it: of the largest to come, what it makes and what comes of that
    )
    later: str = ""  # what will need more


NOTHING = InFlight(0, 0, 0, 0)


def look(
    frames: list[RunningFrame],
    gpu: int,
    dead: Iterable[DeadVariables] = (),
    requested_bytes: int = 0,
    rows: int = 0,
) -> InFlight:
    """What dead variables hold is of an earlier iteration and no part of this one. Keeps nothing of what it sees."""
    import torch

    by_rows: Counter[int] = Counter()
    single = weights = alike = 0
    seen: set[int] = set()
    unread = {(variables.file, name) for variables in dead for name in variables.names}
    values = (v for frame in frames for name, v in frame.values.items() if (frame.file, name) not in unread)
    for tensor in tensors_within(values):
        if not is_on(tensor, gpu) or tensor.layout is not torch.strided:
            continue
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):  # a subclass that has none
            continue
        if storage._cdata in seen:
            continue
        seen.add(storage._cdata)
        is_single = tensor.dtype is torch.float32
        if issubclass(type(tensor), torch.nn.Parameter):
            weights += storage.nbytes() * is_single
            continue
        single += storage.nbytes() * is_single
        alike += storage.nbytes() * (storage.nbytes() == requested_bytes)
        if tensor.dim() > 1 and tensor.shape[0] > 1:
            by_rows[tensor.shape[0]] += storage.nbytes()
    if not rows:
        (rows, _), *_ = by_rows.most_common(1) or [(0, 0)]
    return InFlight(rows, by_rows[rows], single, weights, alike)


def find_at_work(scene: Scene, dead: Iterable[DeadVariables], saved_bytes: int) -> list[Advice]:
    """Those for what the frames are at; what dead variables hold has no part in it.

    Within a step of training, for whose backward `saved_bytes` are kept, precision is not this line's to choose.
    """
    facts = scene.facts
    if loading.running(scene):
        return []
    if (moved := _moved(scene)) is not None:
        return _moved_in_half(moved, facts)
    at = next((frame for frame in scene.frames if not holding_lines.is_torchs(frame.file)), None)
    modules = what_runs.running_modules(scene.frames)
    if at is not None and not modules and _is_gathering(at):
        return _gathered_on_host(at, facts) if at.is_users else []
    # What is filled on the way, as a cache of keys is, grows in ways that nothing here tells.
    if modules and _is_filling(scene):
        return []
    flight = look(
        scene.frames, facts.gpu, dead, facts.requested_bytes, what_runs.batch_of(scene, modules) if modules else 0
    )
    if modules:
        coming = forward.to_come(modules, forward.NOTHING)
        largest = max((facts.requested_bytes, *logits.outputs_to_come(scene, modules, coming)))
        flight = flight._replace(coming_bytes=flight.row_bytes + 2 * largest, later=_later(scene))
    if saved_bytes:
        flight = flight._replace(single_bytes=0, weight_bytes=0)
    # What a library makes at once is not the program's to divide.
    is_own = at is not None and at.is_users and (not modules or at.values.get("self") is modules[0])
    return find(facts, flight, is_own)


def _filled(scene: Scene) -> Iterator[tuple[str, Any, str]]:
    """The lists and dictionaries of the user's functions that a line of them fills: their names, and the line."""
    for frame in scene.users_frames:
        for name, value in frame.values.items():
            line = kept.line_that_adds(name, frame) if type(value) in (list, dict) else None
            if line is not None:
                yield name, value, linecache.getline(frame.file, line)


def _is_filling(scene: Scene) -> bool:
    """Whether one of them has something of the GPU."""
    return any(is_on(one, scene.facts.gpu) for _, value, _ in _filled(scene) for one in tensors_within([value]))


def _later(scene: Scene) -> str:
    """What the user's functions will do that needs more than what they do now; "" if nothing is seen."""
    if any("backward" in frame.code.co_names for frame in scene.users_frames):
        return "the backward that follows takes more"
    keeps = (name for name, _, line in _filled(scene) if not _TO_HOST.search(line))
    return next((f"`{name}` is to keep what is made of them" for name in keeps), "")


def _moved(scene: Scene) -> Any:
    """The model that is being moved to the GPU."""
    import torch

    moving = [frame.values.get("self") for frame in scene.frames if frame.code.co_name == "_apply"]
    return next((model for model in reversed(moving) if issubclass(type(model), torch.nn.Module)), None)


def missing_to_move(scene: Scene) -> int:
    """What is missing for all of a model that is being moved; 0: none is."""
    model, facts = _moved(scene), scene.facts
    if model is None:
        return 0
    waiting = sum(bytes_of(one) for one in model.parameters() if not is_on(one, facts.gpu))
    return facts.missing_bytes + max(0, waiting - facts.requested_bytes)


def model_too_large(scene: Scene) -> str:
    """Says that a model which is being moved does not fit, in half precision neither; "": it may, or none is moved."""
    model, facts = _moved(scene), scene.facts
    if model is None or _moved_in_half(model, facts):
        return ""
    total = sum(map(bytes_of, model.parameters()))
    return (
        f"the model does not fit: its parameters take {size(total)}, {size(missing_to_move(scene))} more than there is "
        "for them: quantized weights, a part of its layers on the host (device_map of accelerate), or a smaller model"
    )


def _moved_in_half(model: Any, facts: OutOfMemory) -> list[Advice]:
    import torch

    single = [parameter for parameter in model.parameters() if parameter.dtype is torch.float32]
    total = sum(map(bytes_of, single))
    there = sum(bytes_of(parameter) for parameter in single if is_on(parameter, facts.gpu))
    if total // 2 > there + facts.requested_bytes - facts.missing_bytes:
        return []
    text = (
        f"half precision (the model in torch.bfloat16 before it is moved): {size(total)} of parameters are in single "
        "precision"
    )
    return [_lever(text, total // 2)]


def _is_gathering(frame: RunningFrame) -> bool:
    now = statement(frame)
    lines = range(now.first, now.last + 1) if now is not None else ()
    return any(_GATHERING.search(linecache.getline(frame.file, line)) for line in lines)


def _gathered_on_host(frame: RunningFrame, facts: OutOfMemory) -> list[Advice]:
    """About results that the user's code collects on the GPU and joins there."""
    now = statement(frame)
    if now is None:
        return []
    flow, requested = Flow(frame.code), facts.requested_bytes
    for name in sorted(flow.read_in_lines(now.first, now.last) & frame.values.keys()):
        line = kept.line_that_adds(name, frame)
        if line is None and name in flow.written_in_lines(now.first, now.last):
            line = now.first
        joined = [one for one in tensors_within([frame.values[name]]) if is_on(one, facts.gpu)]
        if line is not None and joined and not any(one.requires_grad for one in joined):
            held = sum({one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in joined}.values())
            text = (
                f"`{name}` on the host (.cpu() of each result at {written(frame.file, line)}): what is there now "
                f"({size(held)}) and what is made of it here ({size(requested)}) need no GPU then"
            )
            return [Advice(text, frame.file, line, held + requested, SETTING)]
    return []


def find(facts: OutOfMemory, flight: InFlight, can_divide: bool = True) -> list[Advice]:
    """Those that are enough, the one that fits the request best first. `can_divide`: the program makes the tensor."""
    found = [_pieces(facts, flight) if can_divide else None, _fewer(facts, flight)]
    if facts.requested_bytes < flight.row_bytes:
        found.reverse()
    # Of what comes later only fewer samples are known to be less.
    if not flight.later:
        found.append(_half(facts, flight))
    return [lever for lever in found if lever is not None and lever.bytes >= facts.missing_bytes]


def _lever(text: str, freed: int) -> Advice:
    return Advice(text, None, None, freed, SMALLER)


def _fewer(facts: OutOfMemory, flight: InFlight) -> Advice | None:
    if flight.rows < 2 or not flight.row_bytes:
        return None
    # The request, too, is one row after the other if it can be divided so.
    request = facts.requested_bytes if facts.requested_bytes % flight.rows == 0 else 0
    each = (flight.row_bytes + request) / flight.rows
    spare = step.spare_bytes(flight.row_bytes + request - facts.missing_bytes)
    room = flight.row_bytes + request - facts.missing_bytes - spare
    fit = min(math.floor(room / each), math.floor(room * flight.rows / max(1, flight.coming_bytes)))
    if fit < 1:
        return None
    most = f"at most {fit}, as {flight.later}" if flight.later else f"{fit} would fit"
    text = (
        f"fewer at a time: with {flight.rows} at once each takes {size(each)}, as the tensors at work and this request "
        f"go; {most}"
    )
    return _lever(text, facts.missing_bytes)


def _pieces(facts: OutOfMemory, flight: InFlight) -> Advice | None:
    """One tensor, as scores or logits, made and used part by part."""
    # What is as large may be what this is made of, and something else may be made of it.
    tensors = 2 * facts.requested_bytes + flight.alike_bytes
    room = facts.requested_bytes - facts.missing_bytes + flight.alike_bytes
    if room <= 0:
        return None
    pieces = math.ceil(tensors / room)
    if not 1 < pieces <= _MOST_PIECES or flight.later:
        return None
    text = (
        f"this one tensor of {size(facts.requested_bytes)} in {pieces} pieces (chunks, tiles or windows), each used up "
        f"before the next is made: a piece takes {size(facts.requested_bytes / pieces)}"
    )
    return _lever(text, facts.requested_bytes - facts.requested_bytes // pieces)


def _half(facts: OutOfMemory, flight: InFlight) -> Advice | None:
    saved = flight.single_bytes // 2
    how = "autocast"
    what = f"{size(flight.single_bytes)} of tensors at work"
    if flight.weight_bytes:
        saved += flight.weight_bytes // 2
        how = "the model and its inputs in torch.bfloat16"
        what += f" and {size(flight.weight_bytes)} of parameters"
    # Most of what is at work being so, what is asked for will be.
    if 2 * flight.single_bytes >= flight.row_bytes > 0:
        saved += facts.requested_bytes // 2
    # Half of what is still to come has to fit, too.
    at_work = flight.row_bytes + facts.requested_bytes
    if not saved or flight.coming_bytes - flight.coming_bytes // 2 > at_work - facts.missing_bytes:
        return None
    return _lever(f"half precision ({how}): {what} are in single precision", saved)


def tensors_within(values: Iterable[Any]) -> Iterator[Any]:
    """Within reach of the values, each once."""
    import torch

    waiting = [(value, 0) for value in values]
    seen: set[int] = set()
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        value, depth = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_tensor(value):
            yield value
        elif issubclass(type(value), torch.nn.Module):
            waiting += [(parameter, depth) for parameter in value.parameters()]
        elif depth < _DEPTH:
            waiting += [(inner, depth + 1) for inner in _contents(value)]


def _contents(value: Any) -> list[Any]:
    if issubclass(type(value), dict):
        return list(value.values())
    if issubclass(type(value), (list, tuple)):
        return list(value)
    if issubclass(type(value), OPAQUE):
        return []
    # Not getattr(value, ...): that may run code of the program's.
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    return list(attributes.values()) if type(attributes) is dict else []
