"""Tells the agent of backward passes, optimizers' steps and autocast. What torch lacks is left out."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol

from ..._program.uncompiled import uncompiled


class Listener(Protocol):
    def backward_begins(self) -> None: ...
    def backward_ended(self) -> None: ...
    def optimizer_made(self, optimizer: Any) -> None: ...
    def optimizer_begins(self, optimizer: Any) -> None: ...
    def optimizer_ended(self, optimizer: Any) -> None: ...
    def autocast_entered(self) -> None: ...


def install(listener: Listener) -> None:
    """From now on, for the life of the process."""
    _watch_backwards(listener)
    _watch_optimizers(listener)
    _watch_autocast(listener)


def _watch_backwards(listener: Listener) -> None:
    import torch

    passes = _Nesting()
    torch.autograd.backward = _watched(torch.autograd.backward, passes, listener)
    torch.autograd.grad = _watched(torch.autograd.grad, passes, listener)


class _Nesting:
    """A backward pass may run others: of a checkpoint, say, on a thread of autograd's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0

    def enter(self) -> bool:
        with self._lock:
            self._depth += 1
            return self._depth == 1

    def leave(self) -> bool:
        with self._lock:
            self._depth -= 1
            return self._depth == 0


def _watched(run: Callable, passes: _Nesting, listener: Listener) -> Callable:
    import torch

    @functools.wraps(run)
    def watched(*arguments: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling():
            return run(*arguments, **options)
        if passes.enter():
            listener.backward_begins()
        try:
            return run(*arguments, **options)
        finally:
            if passes.leave():
                listener.backward_ended()

    return uncompiled(watched, calls_ours_only=False)


def _watch_optimizers(listener: Listener) -> None:
    import torch
    from torch.optim import optimizer as optimizers

    def begins(optimizer: Any, arguments: tuple, options: dict) -> None:
        if not torch.compiler.is_compiling():
            listener.optimizer_begins(optimizer)

    def ended(optimizer: Any, arguments: tuple, options: dict) -> None:
        if not torch.compiler.is_compiling():
            listener.optimizer_ended(optimizer)

    optimizers.register_optimizer_step_pre_hook(uncompiled(begins, calls_ours_only=True))
    optimizers.register_optimizer_step_post_hook(uncompiled(ended, calls_ours_only=True))
    make = torch.optim.Optimizer.__init__

    @functools.wraps(make)
    def made(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        listener.optimizer_made(self)

    torch.optim.Optimizer.__init__ = uncompiled(made, calls_ours_only=False)


def _watch_autocast(listener: Listener) -> None:
    import torch

    enter = torch.autocast.__enter__

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        if self.device == "cuda" and self._enabled:
            listener.autocast_entered()
        return enter(self)

    torch.autocast.__enter__ = uncompiled(entered, calls_ours_only=False)
