"""What happens in the program's training loop, for all that follow it: passes, steps, batches.

A listener is any object that has methods named as the events in ``_WATCHES``. Torch is hooked into once in a process,
by the first listener that has a method for what is watched there. Of what torch.compile traces nobody is told.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any

from .uncompiled import uncompiled

_listeners: tuple[Any, ...] = ()
_watched: set[Callable[[], None]] = set()


def listen(listener: Any) -> None:
    """From now on the listener is told, after those that listen already."""
    global _listeners
    # The compiler is to follow none of the calls into listeners.
    uncompiled(_tell, calls_ours_only=True)
    _listeners = (*_listeners, listener)
    for events, watch in _WATCHES:
        if watch not in _watched and any(hasattr(listener, event) for event in events):
            _watched.add(watch)
            watch()


def leave(listener: Any) -> None:
    """From now on the listener is told nothing; none that never listened is refused."""
    global _listeners
    _listeners = tuple(other for other in _listeners if other is not listener)


def _tell(event: str, *arguments: Any) -> None:
    for listener in _listeners:
        method = getattr(listener, event, None)
        if method is not None:
            method(*arguments)


def _question_of_compiling() -> Callable[[], bool]:
    """PyTorch's function that says whether the compiler traces its caller."""
    import torch

    # Public from 2.2 on.
    return getattr(torch.compiler, "is_compiling", None) or torch._utils.is_compiling


def _watch_passes() -> None:
    """``pass_begins()`` and, however it ends, ``pass_ended(is_backward)``; else the pass is one of autograd.grad()'s.

    A pass may run others, as that of a checkpoint does on a thread of autograd's: the outermost is told.
    """
    import torch

    is_compiling = _question_of_compiling()
    lock, depth = threading.Lock(), 0

    def enter(by: int) -> int:
        nonlocal depth
        with lock:
            depth += by
            return depth

    def watched(run: Callable, is_backward: bool) -> Callable:
        @functools.wraps(run)
        def watching(*arguments: Any, **options: Any) -> Any:
            if is_compiling():
                return run(*arguments, **options)
            if enter(1) == 1:
                _tell("pass_begins")
            try:
                return run(*arguments, **options)
            finally:
                if enter(-1) == 0:
                    _tell("pass_ended", is_backward)

        return uncompiled(watching, calls_ours_only=False)

    torch.autograd.backward = watched(torch.autograd.backward, is_backward=True)
    torch.autograd.grad = watched(torch.autograd.grad, is_backward=False)


def _watch_steps(when: str, event: str) -> None:
    """``optimizer_begins(optimizer)`` before ("pre") its step, ``optimizer_stepped(optimizer)`` after it ("post")."""
    optimizers = importlib.import_module("torch.optim.optimizer")

    is_compiling = _question_of_compiling()

    def hook(optimizer: Any, arguments: tuple, options: dict) -> None:
        if not is_compiling():
            _tell(event, optimizer)

    getattr(optimizers, f"register_optimizer_step_{when}_hook")(uncompiled(hook, calls_ours_only=True))


def _watch_made_optimizers() -> None:
    """``optimizer_made(optimizer)``"""
    import torch

    make = torch.optim.Optimizer.__init__

    @functools.wraps(make)
    def made(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        _tell("optimizer_made", self)

    torch.optim.Optimizer.__init__ = uncompiled(made, calls_ours_only=False)  # type: ignore[method-assign]


def _watch_autocast() -> None:
    """``autocast_entered()``: of CUDA, where it is enabled."""
    import torch

    enter = torch.autocast.__enter__

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        if self.device == "cuda" and self._enabled:
            _tell("autocast_entered")
        return enter(self)

    torch.autocast.__enter__ = uncompiled(entered, calls_ours_only=False)  # type: ignore[method-assign]


def _watch_loaders() -> None:
    """``loader_started(loader, iterator)``, ``batch_given(iterator, batch)`` and ``loader_ran_dry(iterator)``."""
    from torch.utils.data import DataLoader, dataloader

    # It is private: a version of PyTorch may lack it.
    iterators = getattr(dataloader, "_BaseDataLoaderIter", None)
    if iterators is None or not hasattr(iterators, "__next__"):
        return
    start, give = DataLoader.__iter__, iterators.__next__

    @functools.wraps(start)
    def started(self: Any) -> Any:
        iterator = start(self)
        _tell("loader_started", self, iterator)
        return iterator

    @functools.wraps(give)
    def given(self: Any) -> Any:
        try:
            batch = give(self)
        except StopIteration:
            _tell("loader_ran_dry", self)
            raise
        _tell("batch_given", self, batch)
        return batch

    DataLoader.__iter__ = uncompiled(started, calls_ours_only=False)  # type: ignore[method-assign]
    iterators.__next__ = uncompiled(given, calls_ours_only=False)


_WATCHES: tuple[tuple[tuple[str, ...], Callable[[], None]], ...] = (
    (("pass_begins", "pass_ended"), _watch_passes),
    (("optimizer_begins",), functools.partial(_watch_steps, "pre", "optimizer_begins")),
    (("optimizer_stepped",), functools.partial(_watch_steps, "post", "optimizer_stepped")),
    (("optimizer_made",), _watch_made_optimizers),
    (("autocast_entered",), _watch_autocast),
    (("loader_started", "batch_given", "loader_ran_dry"), _watch_loaders),
)
