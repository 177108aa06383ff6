"""How a step could be made smaller: without a graph, with fewer samples at a time, in half precision, or with one large
tensor made in pieces. What each of these saves is counted from what the running frames hold, or was seen before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _tracking
from .._common.messages import format_bytes as size
from .._program.code_lines import written
from .._program.users_code import is_users
from .._tracking.live_tensors import is_on, is_tensor
from .scene import BATCH, SMALLER, Advice, RunningFrame, Scene
from .variables import OPAQUE, DeadVariables

if TYPE_CHECKING:
    from .._native.out_of_memory import OutOfMemory

_MOST_VALUES = 20_000
# How deep a frame's lists, dictionaries and objects are looked into: a cache of keys is a list in an object.
_DEPTH = 4
# More pieces would each be too small to be worth their calls.
_MOST_PIECES = 64
# A backward by any of these names.
_BACKWARDS = frozenset(("backward", "manual_backward", "grad", "step"))


class InFlight(NamedTuple):
    """What the running frames hold, parameters apart."""

    rows: int  # the first dimension that most of it has; 0: none
    row_bytes: int  # of the tensors that have it
    single_bytes: int  # in single precision, of all
    weight_bytes: int  # of parameters in single precision
    has_gradients: bool


NOTHING = InFlight(0, 0, 0, 0, True)


def look(frames: list[RunningFrame], gpu: int, dead: Iterable[DeadVariables] = ()) -> InFlight:
    """What dead variables hold is of an earlier iteration and no part of this one. Keeps nothing of what it sees."""
    import torch

    by_rows: Counter[int] = Counter()
    single = weights = 0
    seen: set[int] = set()
    unread = {(variables.file, name) for variables in dead for name in variables.names}
    values = (v for frame in frames for name, v in frame.values.items() if (frame.file, name) not in unread)
    for tensor in _tensors(values):
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
        if tensor.dim() > 1 and tensor.shape[0] > 1:
            by_rows[tensor.shape[0]] += storage.nbytes()
    (rows, row_bytes), *_ = by_rows.most_common(1) or [(0, 0)]
    return InFlight(rows, row_bytes, single, weights, torch.is_grad_enabled())


def find(facts: OutOfMemory, flight: InFlight) -> list[Advice]:
    """Those that bring something, the one that fits the request best first."""
    found = [_pieces(facts), _fewer(facts, flight)]
    if facts.requested_bytes < flight.row_bytes:
        found.reverse()
    found.append(_half(facts, flight))
    return [lever for lever in found if lever is not None]


def _lever(text: str, freed: int) -> Advice:
    return Advice(text, None, None, freed, SMALLER)


def _fewer(facts: OutOfMemory, flight: InFlight) -> Advice | None:
    if flight.rows < 2:
        return None
    # The request, too, is one row after the other if it can be divided so.
    request = facts.requested_bytes if facts.requested_bytes % flight.rows == 0 else 0
    each = (flight.row_bytes + request) / flight.rows
    fit = flight.rows - math.ceil(facts.missing_bytes / each)
    if fit < 1:
        return None
    text = (
        f"fewer at a time: with {flight.rows} at once each takes {size(each)}, as the tensors at work and this request "
        f"go; {fit} would fit"
    )
    return _lever(text, facts.missing_bytes)


def _pieces(facts: OutOfMemory) -> Advice | None:
    """One tensor, as scores or logits, made and used part by part."""
    room = facts.requested_bytes - facts.missing_bytes
    if room <= 0:
        return None
    pieces = math.ceil(facts.requested_bytes / room)
    if not 1 < pieces <= _MOST_PIECES:
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
    if not flight.has_gradients and flight.weight_bytes:
        saved += flight.weight_bytes // 2
        how = "the model and its inputs in torch.bfloat16, or autocast for the results alone"
        what += f" and {size(flight.weight_bytes)} of parameters"
    # Most of what is at work being so, what is asked for will be.
    if 2 * flight.single_bytes >= flight.row_bytes > 0:
        saved += facts.requested_bytes // 2
    if not saved:
        return None
    return _lever(f"half precision ({how}): {what} are in single precision", saved)


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
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


def without_graph(scene: Scene, saved_bytes: int) -> list[Advice]:
    """About the user's call of a model in evaluation mode, or with no backward in sight, while gradients are recorded:
    whether no backward pass will use what autograd keeps, which is `saved_bytes`."""
    import torch

    if not torch.is_grad_enabled():
        return []
    frames = scene.frames
    outermost = max((i for i, frame in enumerate(frames) if _module_of(frame) is not None), default=None)
    callers = [] if outermost is None else frames[outermost + 1 :]
    caller = next((frame for frame in callers if frame.is_users), None)
    if caller is None:
        return []
    model = _module_of(frames[outermost])
    has_backward = any(_names(frame.code) & _BACKWARDS for frame in callers if frame.is_users)
    # A trainer's own loop calls backward where it is not seen here.
    is_own_loop = all(is_users(frame.file) for frame in callers)
    if model.training and (has_backward or not is_own_loop):
        return []
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return []
    # The code around it has a backward, which may be for these results.
    when = " if no backward is to follow" if has_backward else ""
    text = (
        f"call {type(model).__name__} at {written(caller.file, caller.line)} under torch.no_grad(){when}: "
        f"{size(saved_bytes)} are held for a backward only"
    )
    return [Advice(text, caller.file, caller.line, saved_bytes)]


def _module_of(frame: RunningFrame) -> Any:
    """The module whose forward the frame runs."""
    import torch

    value = frame.values.get("self")
    if frame.code.co_name in ("forward", "_call_impl", "_wrapped_call_impl") and isinstance(value, torch.nn.Module):
        return value
    return None


def _names(code: CodeType) -> set[str]:
    """What the code refers to, with its inner functions; a module's functions need not be called from here."""
    is_function = code.co_name != "<module>"
    nested = (_names(constant) for constant in code.co_consts if is_function and isinstance(constant, CodeType))
    return set(code.co_names).union(*nested)


def batch_that_fits(facts: OutOfMemory) -> list[Advice]:
    """About the largest batch that would have fit; none where fewer than two sizes have been seen."""
    tracker = _tracking.current()
    if tracker is None or tracker.batches.current is None:
        return []
    capacity = min(
        facts.limit_bytes - facts.native_reserved_bytes,
        facts.device_total_bytes - facts.outside_bytes - facts.native_reserved_bytes,
    )
    text = fitting_batch(dict(tracker.batches.peaks), tracker.batches.current, capacity)
    return [] if text is None else [Advice(text, None, None, facts.missing_bytes, BATCH)]


def fitting_batch(peaks: dict[int, int], current: int, capacity_bytes: int) -> str | None:
    """In a sentence, from the peaks of the sizes seen, on the line through the two largest."""
    sizes = sorted(size for size in peaks if size != current)[-2:]
    if len(sizes) < 2:
        return None
    small, large = sizes
    for_each = (peaks[large] - peaks[small]) / (large - small)
    if for_each <= 0:
        return None
    fits = int(large + (capacity_bytes - peaks[large]) // for_each)
    if not 0 < fits < current:
        return None
    seen = f"the peaks of {small} and {large}"
    return f"a batch of {fits} would have fit, by {seen}; this one is of {current}"
