"""What optimizers keep beside the parameters, and what they are still to make."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

from .._heap.live_tensors import is_on
from .._tracking.trained import parameters_of, tensors_in_state

# How many tensors as large as each parameter one keeps, by the class.
_COPIES = {"Adam": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "Adadelta": 2, "RMSprop": 1, "Adagrad": 1, "Lion": 1}


class OptimizerState(NamedTuple):
    """Of one optimizer."""

    name: str
    bytes: int  # once it has stepped
    to_come: int  # of these
    temporary_bytes: int  # that a step makes of all parameters at once


NOTHING = OptimizerState("", 0, 0, 0)


def living() -> list[Any]:
    """All optimizers, each once, also where a library's wraps one."""
    import torch

    found = [value for value in gc.get_objects() if issubclass(type(value), torch.optim.Optimizer)]
    return [*{id(one.param_groups): one for one in found if getattr(one, "param_groups", None)}.values()]


def of(optimizer: Any, gpu: int) -> OptimizerState:
    """What an optimizer has on a GPU, and will have."""
    import torch

    names = [kind.__name__ for kind in type(optimizer).__mro__]
    copies = next((_COPIES[name] for name in names if name in _COPIES), 0)
    copies += bool(optimizer.defaults.get("amsgrad")) + ("SGD" in names and bool(optimizer.defaults.get("momentum")))
    parameters = [one for one in parameters_of(optimizer) if is_on(one, gpu) and one.requires_grad]
    held = to_come = 0
    for parameter in parameters:
        state = sum(bytes_of(one) for one in tensors_in_state(optimizer.state.get(parameter)) if is_on(one, gpu))
        held += state
        to_come += max(0, copies * bytes_of(parameter) - state)
    one_by_one = optimizer.defaults.get("foreach") is False or optimizer.defaults.get("fused")
    temporary = 0 if one_by_one or not _COPIES.keys() & set(names) else sum(map(bytes_of, parameters))
    name = next((name for name in names if hasattr(torch.optim, name)), names[0])
    return OptimizerState(name, held + to_come, to_come, temporary)


def bytes_of(tensor: Any) -> int:
    """Its elements'."""
    return tensor.numel() * tensor.element_size()
