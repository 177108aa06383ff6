"""The CTC loss where a mode looks at operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .graphs import wrap


def _ctc_loss(wrapped: Callable, inputs: torch.Tensor, targets: torch.Tensor, *lengths_and_options: Any, **named: Any):
    """With lengths as lists, which PyTorch makes of them by itself unless a mode is on.

    Under one it hands the tensors on, and a GPU's operator refuses those that lie on the host, as they mostly do.
    """

    def as_list(value: Any) -> Any:
        return value.tolist() if isinstance(value, torch.Tensor) and value.dim() == 1 else value

    options = [as_list(value) for value in lengths_and_options]
    return wrapped(inputs, targets, *options, **{name: as_list(value) for name, value in named.items()})


def start() -> None:
    wrap(torch, "ctc_loss", _ctc_loss)
