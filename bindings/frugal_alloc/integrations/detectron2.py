"""A hook for Detectron2's trainers."""

from __future__ import annotations

import os

from ._following import Following

try:
    from detectron2.engine import HookBase
    from detectron2.utils import comm
except ImportError:
    # Its package index is not PyPI.
    raise ImportError(
        "frugal_alloc.integrations.detectron2 needs detectron2: see detectron2's own guide for how to install it"
    ) from None


class MemoryReport(HookBase):
    """Tells frugal_alloc what is training, and where epochs end. ``trainer.register_hooks([MemoryReport()])``.

    After the training, rank 0 prints what leaks, if anything material does.

    Args:
        period: So many iterations are an epoch; 0: frugal_alloc takes windows of steps, as Detectron2 knows no epochs.
        path: A file that the report is written to at the end: a page if it ends in ".html", else JSON.
        enable: Whether to enable frugal_alloc as training begins. Where that is not possible, one line says why, and
            training goes on with PyTorch's allocator.
    """

    def __init__(self, period: int = 0, path: str | os.PathLike[str] | None = None, enable: bool = True) -> None:
        if period < 0:
            raise ValueError(f"period={period} is not possible; give a number of iterations, or 0")
        self._period = period
        self._following = Following(path, enable)

    def before_train(self) -> None:
        self._following.begin()
        self._following.enter("train")

    def after_step(self) -> None:
        if self._period and (self.trainer.iter + 1) % self._period == 0:
            self._following.end_epoch()

    def after_train(self) -> None:
        self._following.finish(comm.is_main_process())
