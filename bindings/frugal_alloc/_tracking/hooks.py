"""Where torch tells us of steps and batches. Installed once in a process; what torch lacks is left out."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from .._program.uncompiled import uncompiled
from .followed import current, forget

_installed = False


def install() -> None:
    """Lets torch call what follows this process, as long as there is something that does."""
    global _installed
    if not _installed:
        _installed = True
        from .tracker import Tracker

        # One code object wraps all that is called below.
        uncompiled(Tracker.optimizer_stepped, calls_ours_only=True)
        _watch_optimizers()
        _watch_backwards(Tracker)
        _watch_loaders()


def _watch_optimizers() -> None:
    import torch

    try:
        from torch.optim.optimizer import register_optimizer_step_post_hook
    except ImportError:
        return
    is_compiling = getattr(torch.compiler, "is_compiling", lambda: False)

    def stepped(optimizer: Any, args: tuple, kwargs: dict) -> None:
        # torch.compile traces through here, and is to find nothing.
        if is_compiling():
            return
        tracker = current()
        if tracker is not None:
            tracker.optimizer_stepped(optimizer)

    register_optimizer_step_post_hook(uncompiled(stepped, calls_ours_only=True))


def _watch_backwards(tracker_type: type) -> None:
    """For programs without an optimizer of torch's: their backward passes are their steps, or where there are none
    either, the gradients that they ask for."""
    import torch

    torch.autograd.backward = _watched_pass(torch.autograd.backward, tracker_type.backward_ended)
    torch.autograd.grad = _watched_pass(torch.autograd.grad, tracker_type.gradients_computed)


def _watched_pass(run: Callable, note: Callable) -> Callable:
    import torch

    @functools.wraps(run)
    def watched(*arguments: Any, **options: Any) -> Any:
        result = run(*arguments, **options)
        tracker = current()
        if tracker is not None and not tracker.steps.has_optimizer and not torch.compiler.is_compiling():
            note(tracker)
        return result

    return uncompiled(watched, calls_ours_only=False)


def _watch_loaders() -> None:
    try:
        from torch.utils.data import DataLoader
        from torch.utils.data.dataloader import _BaseDataLoaderIter
    except ImportError:
        return
    if hasattr(_BaseDataLoaderIter, "__next__"):
        DataLoader.__iter__ = _watched_start(DataLoader.__iter__)  # type: ignore[method-assign]
        _BaseDataLoaderIter.__next__ = _watched_next(_BaseDataLoaderIter.__next__)  # type: ignore[method-assign]


def _watched_start(start: Callable) -> Callable:
    @functools.wraps(start)
    def watched(self: Any) -> Any:
        iterator = start(self)
        tracker = current()
        if tracker is not None:
            tracker.loader_started(self, iterator)
        return iterator

    return uncompiled(watched, calls_ours_only=False)


def _watched_next(give: Callable) -> Callable:
    @functools.wraps(give)
    def watched(self: Any) -> Any:
        try:
            batch = give(self)
        except StopIteration:
            tracker = current()
            if tracker is not None:
                tracker.loader_ran_dry(self)
            raise
        tracker = current()
        if tracker is not None:
            tracker.batch_given(self, batch)
        return batch

    return uncompiled(watched, calls_ours_only=False)


# The run that was followed is not a child's by fork: a loader's worker, or a process of its own.
os.register_at_fork(after_in_child=forget)
