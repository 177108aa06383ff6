"""The allocators that trainings are compared on: how each is put in place, and what it says about its memory.

Imports torch only where it is needed, so that whoever starts the trainings does not load it.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
from typing import Any, Protocol

# In the order in which they are shown. What they are, and what PyTorch has to be told from outside.
TITLES = {
    "native": "PyTorch native",
    "expandable": "expandable segments",
    "async": "cudaMallocAsync",
    "rmm": "RMM pool",
    "frugal": "frugal_alloc",
}
SETTINGS = {"expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}


@dataclasses.dataclass(frozen=True)
class Figures:
    """The most bytes that tensors and the allocator held at a time; how often memory was short, where that is known."""

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    alloc_retries: int | None
    ooms: int | None


class Memory(Protocol):
    """An allocator that is in place in this process."""

    def figures(self) -> Figures:
        """What it did since it was put in place."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether this is how it says that memory has run out."""


def rmm_version() -> str | None:
    """The version of RMM's wheel; None if it is not installed."""
    if importlib.util.find_spec("rmm") is None:
        return None
    # The distribution is named after the CUDA version.
    names = importlib.metadata.packages_distributions().get("rmm", [])
    return importlib.metadata.version(names[0]) if names else "unknown"


def install(name: str, capacity: int | None) -> Memory:
    """Puts the allocator in place, before anything is allocated; SETTINGS have been made in the environment.

    Args:
        capacity: the most bytes that it may hold; None: all that the GPU has.
    """
    import torch

    if name == "rmm":
        return _Rmm(capacity)
    if name == "frugal":
        import frugal_alloc

        frugal_alloc.enable()
    if capacity is not None:
        torch.cuda.set_per_process_memory_fraction(min(1.0, capacity / torch.cuda.mem_get_info()[1]))
    return _Torch()


class _Torch:
    """What PyTorch keeps statistics of: all but pluggable allocators."""

    def figures(self) -> Figures:
        import torch

        stats = torch.cuda.memory_stats()
        return Figures(
            peak_allocated_bytes=stats["allocated_bytes.all.peak"],
            peak_reserved_bytes=stats["reserved_bytes.all.peak"],
            alloc_retries=stats["num_alloc_retries"],
            ooms=stats["num_ooms"],
        )

    def is_out_of_memory(self, error: BaseException) -> bool:
        import torch

        return isinstance(error, torch.cuda.OutOfMemoryError)


class _Rmm:
    """RMM's pool over cudaMalloc, with its own books above and below the pool: PyTorch keeps none for it."""

    def __init__(self, capacity: int | None) -> None:
        import rmm
        import torch
        from rmm.allocators.torch import rmm_torch_allocator

        self._below: Any = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
        # From nothing, as the others: by default it takes half of the GPU at once.
        pool = rmm.mr.PoolMemoryResource(self._below, initial_pool_size=0, maximum_pool_size=_whole_pages(capacity))
        self._above: Any = rmm.mr.StatisticsResourceAdaptor(pool)
        rmm.mr.set_current_device_resource(self._above)
        torch.cuda.memory.change_current_allocator(rmm_torch_allocator)

    def figures(self) -> Figures:
        above, below = self._above.allocation_counts, self._below.allocation_counts
        return Figures(above.peak_bytes, below.peak_bytes, None, None)

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError) or "bad_alloc" in str(error)


def _whole_pages(capacity: int | None) -> int | None:
    """RMM's pool takes multiples of 256 bytes only."""
    return None if capacity is None else capacity // 256 * 256
