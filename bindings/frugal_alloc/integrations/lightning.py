"""A callback for Lightning's Trainer, from the package ``lightning`` or ``pytorch_lightning``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from ._following import Following, missing


def _callback_classes() -> tuple[type, ...]:
    """Those of the packages that the program uses; both have one, and each Trainer knows its own."""
    names = ("lightning.pytorch", "pytorch_lightning")
    used = [name for name in names if name in sys.modules]
    found = []
    for name in used or names:
        try:
            found.append(importlib.import_module(name).Callback)
        except ImportError:
            continue
        if not used:
            break
    if not found:
        raise missing("lightning", "lightning")
    return tuple(dict.fromkeys(found))


def _phase(name: str) -> tuple[Callable[..., None], Callable[..., None]]:
    """What the Trainer calls as it begins, and as it ends."""
    return lambda self, *_: self._following.enter(name), lambda self, *_: self._following.leave(name)


class MemoryReport(*_callback_classes()):  # type: ignore[misc]
    """Tells frugal_alloc where epochs end and what is training, validation, test and prediction.

    After the training, rank 0 prints what leaks, if anything material does.

    Args:
        path: A file that the report is written to at the end: a page if it ends in ".html", else JSON.
        enable: Whether to enable frugal_alloc as the Trainer sets up. Where that is not possible, one line says why,
            and training goes on with PyTorch's allocator.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, enable: bool = True) -> None:
        super().__init__()
        self._following = Following(path, enable)

    def setup(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        self._following.begin()

    on_train_start, on_train_end = _phase("train")
    on_validation_start, on_validation_end = _phase("validation")
    on_test_start, on_test_end = _phase("test")
    on_predict_start, on_predict_end = _phase("prediction")

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._following.end_epoch()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._following.leave_all()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._following.finish(bool(trainer.is_global_zero))
