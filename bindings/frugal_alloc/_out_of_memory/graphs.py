"""Results whose graphs no backward pass will use."""

from __future__ import annotations

from types import CodeType
from typing import Any

from .._common.messages import format_bytes as size
from .._program.code_lines import short_path, written
from .._program.users_code import is_users
from .._tracking.trained import parameters_of
from .scene import LEAST_BYTES, Advice, RunningFrame, Scene

# A backward by any of these names.
_BACKWARDS = frozenset(("backward", "manual_backward", "grad", "step"))


def of_untrained(scene: Scene) -> list[Advice]:
    """About the model, beside those that optimizers train, whose parameters no optimizer has: a teacher's results lead
    to no parameter that changes."""
    trained = {id(parameter) for optimizer in scene.optimizers for parameter in parameters_of(optimizer)}
    if not trained:
        return []
    freed, untrained = scene.ownership.freed_without_graphs_of_untrained(trained)
    if freed < LEAST_BYTES:
        return []
    for frame in scene.users_frames:
        for name, value in (*frame.values.items(), *_attributes(frame.values.get("self"))):
            if _is_module(value) and untrained & {id(parameter) for parameter in value.parameters()}:
                text = (
                    f"call `{name}` in {short_path(frame.file)} under torch.no_grad(): no optimizer trains it, and "
                    f"{size(freed)} are held for a backward through it only"
                )
                return [Advice(text, frame.file, None, freed)]
    return []


def _attributes(value: Any) -> list[tuple[str, Any]]:
    parts = {**vars(value).get("_modules", {}), **vars(value)} if hasattr(value, "__dict__") else {}
    return [(f"self.{name}", part) for name, part in parts.items()]


def _is_module(value: Any) -> bool:
    import torch

    return issubclass(type(value), torch.nn.Module)


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
