"""The tensors of models and optimizers. No code of a module's own runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

# An optimizer's state is a dictionary by parameter of dictionaries of tensors, and L-BFGS's of lists of them.
_DEEPEST_STATE = 4


def parameters_of(optimizer: Any) -> list[Any]:
    """All that it trains."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def gradients_of(parameters: Iterable[Any]) -> Iterator[Any]:
    """Of frozen ones, too, which keep what they had."""
    import torch

    for parameter in parameters:
        if isinstance(parameter, torch.Tensor) and parameter.is_leaf and parameter.grad is not None:
            yield parameter.grad


def tensors_in_state(state: Any, depth: int = _DEEPEST_STATE) -> Iterator[Any]:
    """Those in an optimizer's state, or in a part of it."""
    import torch

    if issubclass(type(state), torch.Tensor):
        yield state
    elif depth and isinstance(state, (dict, list, tuple)):
        for part in list(state.values()) if isinstance(state, dict) else state:
            yield from tensors_in_state(part, depth - 1)


def parts_of(module: Any, kind: str) -> list[Any]:
    """What a module has of the kind "_parameters", "_buffers" or "_modules"."""
    return [part for part in (module.__dict__.get(kind) or {}).values() if part is not None]
