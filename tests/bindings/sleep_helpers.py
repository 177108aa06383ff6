"""What the tests of sleep share."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
from collections.abc import Iterator

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, collect

# The process that this one was forked from froze its own. To look behind them takes half a second for each sleep.
gc.unfreeze()
_numbers = itertools.count()


class Workspaces:
    """What NVIDIA's libraries are given to work in: each is written to as it is given, which the simulated GPU, where
    it checks the order of work, takes for an error if there is no memory below it."""

    def __init__(self) -> None:
        self.given: list[int] = []
        library = ctypes.CDLL(None)
        touch = library.frugal_sim_touch
        touch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p]

        @ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint64, ctypes.c_int64)
        def observe(kind: int, address: int, size: int) -> None:
            if kind == 2 and size > 0:
                self.given.append(address)
                touch(torch.cuda.current_stream().cuda_stream, address, size, 1, b"a library's use of its workspace")

        self._observe = observe  # lives as long as it may be called
        library.frugal_sim_set_observer(observe)


#: Of this process; None on a real GPU, where a library's kernel fails by itself.
workspaces = None if os.environ.get("FRUGAL_TEST_GPU") in ("real", "shared") else Workspaces()


@pytest.fixture(autouse=True)
def nothing_sleeps_afterwards() -> Iterator[None]:
    yield
    frugal_alloc.wake()
    collect()
    torch.cuda.empty_cache()


@pytest.fixture
def name() -> str:
    """A tag that no other test has used."""
    return f"tag {next(_numbers)}"


def numbers(size: int, device: str = "cuda") -> torch.Tensor:
    """`size` bytes, whose values tell whether any of them got lost."""
    return torch.arange(size // 4, dtype=torch.int32, device=device)


def tagged(name: str, size: int = 8 * MIB) -> torch.Tensor:
    with frugal_alloc.tag(name):
        return numbers(size)


def is_whole(tensor: torch.Tensor) -> bool:
    return torch.equal(tensor.cpu(), torch.arange(tensor.numel(), dtype=torch.int32))


def sleeps(tensor: torch.Tensor) -> bool:
    try:
        tensor.data_ptr()
    except RuntimeError:
        return True
    return False
