"""A handler for PyTorch Ignite's engines."""

from __future__ import annotations

import os
from typing import Any

from ._following import Following, missing

try:
    from ignite.engine import Engine, Events
except ImportError:
    raise missing("ignite", "pytorch-ignite") from None


class MemoryReport:
    """Tells frugal_alloc where epochs end and what is training and evaluation.

    ``MemoryReport().attach(trainer, validation=evaluator)``. After the training, what leaks is printed, if anything
    material does.

    Args:
        path: A file that the report is written to at the end: a page if it ends in ".html", else JSON.
        enable: Whether to enable frugal_alloc as training begins. Where that is not possible, one line says why, and
            training goes on with PyTorch's allocator.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, enable: bool = True) -> None:
        self._following = Following(path, enable)

    def attach(self, trainer: Engine, **evaluators: Engine) -> None:
        """Follows the trainer, and each evaluator as a phase of the name that it is given by."""
        following = self._following

        def begin(_: Any) -> None:
            following.begin()
            following.enter("train")

        trainer.add_event_handler(Events.STARTED, begin)
        trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda _: following.end_epoch())
        trainer.add_event_handler(Events.COMPLETED, lambda _: following.finish())
        for name, evaluator in evaluators.items():
            evaluator.add_event_handler(Events.STARTED, lambda _, name=name: following.enter(name))
            evaluator.add_event_handler(Events.COMPLETED, lambda _, name=name: following.leave(name))
