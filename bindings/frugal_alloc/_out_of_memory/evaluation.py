"""Whether results are being computed with gradients although no backward pass will use them."""

from __future__ import annotations

from types import CodeType
from typing import Any

from .._common.messages import format_bytes as size
from .._program.code_lines import written
from .advice import Advice
from .running import RunningFrame, is_users

# A backward by any of these names.
_BACKWARDS = frozenset(("backward", "manual_backward", "grad", "step"))


def find(frames: list[RunningFrame], saved_bytes: int) -> list[Advice]:
    """About the user's call of a model in evaluation mode, or with no backward in sight, while gradients are recorded.

    Args:
        frames: All that run.
        saved_bytes: What autograd keeps for a backward.
    """
    import torch

    if not torch.is_grad_enabled():
        return []
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
