"""How a step could be made smaller that keeps little for a backward pass, as evaluation and generation do.

It could take fewer samples at a time, compute in half precision, or make one large tensor in pieces. What each of these
saves is counted from what the running frames hold.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .._common.messages import format_bytes as size
from . import graphs
from .advice import Advice
from .running import RunningFrame
from .variables import OPAQUE, DeadVariables

_MOST_VALUES = 20_000
# How deep a frame's lists, dictionaries and objects are looked into: a cache of keys is a list in an object.
_DEPTH = 4
# More pieces would each be too small to be worth their calls.
_MOST_PIECES = 64


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
        if tensor.device.type != "cuda" or tensor.device.index != gpu or tensor.layout is not torch.strided:
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


def find(facts: Any, flight: InFlight) -> list[Advice]:
    """Those that bring something, the one that fits the request best first."""
    found = [_pieces(facts), _fewer(facts, flight)]
    if facts.requested_bytes < flight.row_bytes:
        found.reverse()
    found.append(_half(facts, flight))
    return [lever for lever in found if lever is not None]


def _lever(text: str, freed: int) -> Advice:
    return Advice(text, None, None, freed)


def _fewer(facts: Any, flight: InFlight) -> Advice | None:
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


def _pieces(facts: Any) -> Advice | None:
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


def _half(facts: Any, flight: InFlight) -> Advice | None:
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
        if graphs.is_tensor(value):
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
