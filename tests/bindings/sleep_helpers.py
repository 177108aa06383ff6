"""What the tests of sleep share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, collect

_numbers = itertools.count()


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
