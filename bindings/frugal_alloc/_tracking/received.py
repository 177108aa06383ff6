"""Tensors that other processes have shared with this one. The memory is theirs, and they cannot free it while this one
keeps the tensors."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from .._native.sites import Frame
from .._program.users_code import is_users


class Received(NamedTuple):
    """A storage that was opened."""

    storage: Any  # refers to it weakly
    gpu: int
    address: int
    bytes: int
    frame: Frame | None  # the user's line


_received: list[Received] = []


def note(storage: Any) -> None:
    """It has just been opened, for the caller's caller."""
    from torch.multiprocessing.reductions import StorageWeakRef

    frame = sys._getframe(2)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    line = None if frame is None else Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    reference = StorageWeakRef(storage)
    _received.append(Received(reference, storage.device.index, storage.data_ptr(), storage.nbytes(), line))


def now() -> dict[int, list[Received]]:
    """What this process keeps, by GPU, the oldest first."""
    _received[:] = [one for one in _received if not one.storage.expired()]
    by_gpu: dict[int, list[Received]] = {}
    for one in _received:
        by_gpu.setdefault(one.gpu, []).append(one)
    return by_gpu
