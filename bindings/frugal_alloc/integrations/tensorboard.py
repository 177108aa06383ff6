"""Memory as TensorBoard scalars."""

from __future__ import annotations

from typing import Any

from . import _figures

_SCALARS = ("allocated", "peak", "reserved", "outside")


class MemoryScalars:
    """Writes what each GPU holds, in bytes: allocated, its peak, reserved, and outside of PyTorch.

        scalars = MemoryScalars(SummaryWriter())
        for step, batch in enumerate(loader):
            ...
            scalars.write(step)

    Args:
        writer: A SummaryWriter of torch.utils.tensorboard or tensorboardX, or whatever has their ``add_scalar``.
        every: Only every so many calls of :meth:`write` do.
        prefix: What the scalars' names begin with: "memory/gpu0/allocated".
    """

    def __init__(self, writer: Any, every: int = 1, prefix: str = "memory") -> None:
        if not callable(getattr(writer, "add_scalar", None)):
            raise TypeError(f"{type(writer).__name__} has no add_scalar; give a SummaryWriter")
        if every < 1:
            raise ValueError(f"every={every} is not possible; give 1 or more")
        self._writer = writer
        self._every = every
        self._prefix = prefix
        self._calls = 0

    def write(self, step: int) -> None:
        """Writes the figures as they are now; nothing where frugal_alloc is not enabled."""
        self._calls += 1
        if (self._calls - 1) % self._every:
            return
        for gpu, figures in _figures.by_gpu().items():
            for name in _SCALARS:
                self._writer.add_scalar(f"{self._prefix}/gpu{gpu}/{name}", figures[f"{name}_bytes"], step)
