"""Whether results are being computed with gradients although no backward pass will use them."""

from __future__ import annotations

from types import CodeType
from typing import Any, NamedTuple

from .running import RunningFrame, is_users

# A backward by any of these names.
_BACKWARDS = frozenset(("backward", "manual_backward", "grad", "step"))


class Evaluation(NamedTuple):
    """A call of a model that records gradients, as it seems for nothing."""

    file: str
    line: int
    model: str
    is_certain: bool  # False: the code around it has a backward, which may be for these results


def with_gradients(frames: list[RunningFrame]) -> Evaluation | None:
    """The user's call of a model in evaluation mode, or with no backward in sight, while gradients are recorded."""
    import torch

    if not torch.is_grad_enabled():
        return None
    outermost = max((i for i, frame in enumerate(frames) if _module_of(frame) is not None), default=None)
    callers = [] if outermost is None else frames[outermost + 1 :]
    caller = next((frame for frame in callers if frame.is_users), None)
    if caller is None:
        return None
    model = _module_of(frames[outermost])
    has_backward = any(_names(frame.code) & _BACKWARDS for frame in callers if frame.is_users)
    # A trainer's own loop calls backward where it is not seen here.
    is_own_loop = all(is_users(frame.file) for frame in callers)
    if model.training and (has_backward or not is_own_loop):
        return None
    if not any(parameter.requires_grad for parameter in model.parameters()):
        return None
    return Evaluation(caller.file, caller.line, type(model).__name__, not has_backward)


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
