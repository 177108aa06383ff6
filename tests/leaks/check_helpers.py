"""What checks_of_calls.py, checks_of_hooks.py and checks_of_reports.py share."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

import torch
from frugal_alloc import _native, _tracking
from torch import nn
from torch.utils.data import TensorDataset

MIB = 1 << 20


def tensor(size: int = MIB) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


@contextlib.contextmanager
def raising(kind: type[BaseException], words: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """What is freed within is freed for want of references, not by the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def tracker() -> _tracking.tracker.Tracker:
    _tracking.restart(_native.load())
    return _tracking.current()


def training(loader, steps: int | None = None) -> None:
    model = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (inputs,) in enumerate(loader):
        if number == steps:
            break
        model(inputs.cuda()).sum().backward()
        optimizer.step()


def data(rows: int = 32) -> TensorDataset:
    return TensorDataset(torch.ones(rows, 8))
