"""A callback for the Trainer of Hugging Face's transformers."""

from __future__ import annotations

import os
from typing import Any

from ._following import Following, missing

try:
    from transformers import TrainerCallback
except ImportError:
    raise missing("transformers", "transformers") from None


class MemoryReport(TrainerCallback):
    """Tells frugal_alloc where epochs end and what is training, evaluation and prediction.

    After the training, the first process prints what leaks, if anything material does. Of an evaluation that is called
    by itself (``trainer.evaluate()``), the first batch belongs to no phase: the Trainer does not say where it begins.

    Args:
        path: A file that the report is written to at the end: a page if it ends in ".html", else JSON.
        enable: Whether to enable frugal_alloc as training begins. Where that is not possible, one line says why, and
            training goes on with PyTorch's allocator.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, enable: bool = True) -> None:
        self._following = Following(path, enable)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._following.begin()
        self._following.enter("train")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._evaluation_may_follow(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._following.end_epoch()
        self._evaluation_may_follow(control)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._following.enter("evaluation")

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._following.leave("evaluation")

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        self._following.leave("evaluation")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._following.finish(bool(state.is_world_process_zero))

    def _evaluation_may_follow(self, control: Any) -> None:
        if control.should_evaluate:
            self._following.enter("evaluation")
