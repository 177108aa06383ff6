"""The storages of tensors: those that a model, an optimizer or a tree of tensors owns, and those that sleep."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .. import _native
from .._heap import live_tensors
from .._native.sites import users_line
from .._program import code_lines


def owned_by(what: Any) -> list[Any]:
    """Each once.

    Raises:
        FrugalAllocError: it is nothing that tensors are looked for in.
    """
    if not _is_owner(what):
        raise _native.FrugalAllocError(
            f"{type(what).__name__} is nothing that owns tensors; give a tensor, a module, an optimizer, or a dict, "
            "list, tuple, set or dataclass of them"
        )
    with live_tensors.without_torch_functions():
        return _each_once(part for tensor in _tensors_in(what) for part in live_tensors.plain_parts(tensor))


def _each_once(tensors: Iterable[Any]) -> list[Any]:
    """Of those that lie on a GPU. To be called with torch functions disabled."""
    found = {}
    for tensor in tensors:
        if live_tensors.is_plain(tensor) and tensor.is_cuda:
            try:
                storage = tensor.untyped_storage()
            except (RuntimeError, NotImplementedError):  # sparse ones have none
                continue
            found[storage._cdata] = storage
    return list(found.values())


def _is_owner(what: Any) -> bool:
    import torch

    kinds = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer, Mapping, list, tuple, set, frozenset)
    return isinstance(what, kinds) or (dataclasses.is_dataclass(what) and not isinstance(what, type))


def _tensors_in(what: Any) -> Iterator[Any]:
    """What else lies in a tree is left alone. A tree that holds itself is walked once."""
    import torch

    seen: set[int] = set()
    waiting = [what]
    while waiting:
        value = waiting.pop()
        if isinstance(value, torch.Tensor):
            yield value
        elif not _is_owner(value) or id(value) in seen:
            continue
        elif isinstance(value, torch.nn.Module):
            yield from value.parameters()
            yield from value.buffers()
        elif isinstance(value, torch.optim.Optimizer):
            # Its keys are the parameters, which are the model's.
            waiting += value.state.values()
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif dataclasses.is_dataclass(value):
            waiting += [getattr(value, field.name, None) for field in dataclasses.fields(value)]
        else:
            waiting += value
        seen.add(id(value))


def awake(library: _native.Library, objects: list[Any]) -> list[Any]:
    """Those that the program holds, and that do not sleep: of tensors that are among the objects, of their gradients,
    and of what graphs behind them have saved.
    """
    kinds = {kind for kind in set(map(type, objects)) if live_tensors.is_tensor_type(kind)}
    with live_tensors.without_torch_functions():
        tensors = [each for each in objects if type(each) in kinds]
        tensors += [gradient for tensor in tensors if (gradient := live_tensors.gradient_of(tensor)) is not None]
        tensors += live_tensors.saved_behind(tensors)
        return [storage for storage in _each_once(tensors) if library.asleep_block(storage._cdata) is None]


def mark_asleep(library: _native.Library, found: list[Any]) -> None:
    """Lets PyTorch raise an error, which says what to do, in whatever uses one of these that sleeps by now."""
    told = functools.cache(functools.partial(_told, library))
    for storage in found:
        if (block := library.asleep_block(storage._cdata)) is not None:
            library.mark_asleep(storage._cdata, told(block.tag, block.site))


def _told(library: _native.Library, tag: str, site: int) -> str:
    frame = users_line(library, library.site(site)) if site else None
    facts = [f"tag {tag!r}"] if tag else []
    facts += [f"allocated at {code_lines.written(frame.file, frame.line)}"] if frame is not None else []
    about = f" ({', '.join(facts)})" if facts else ""
    return f"this tensor sleeps{about}: call frugal_alloc.wake({repr(tag) if tag else ''}) first"
