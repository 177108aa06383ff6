"""The allocators that trainings are compared on: how each is put in place, and what it says about its memory.

Imports torch only where it is needed, so that whoever starts the trainings does not load it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any

# In the order in which they are shown. What they are, and what PyTorch has to be told from outside.
TITLES = {
    "native": "PyTorch native",
    "expandable": "expandable segments",
    "async": "cudaMallocAsync",
    "rmm": "RMM pool",
    "frugal": "frugal_alloc",
}
SETTINGS = {"expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}


def rmm_version() -> str | None:
    """The version of RMM's wheel; None if it is not installed."""
    if importlib.util.find_spec("rmm") is None:
        return None
    # The distribution is named after the CUDA version.
    names = importlib.metadata.packages_distributions().get("rmm", [])
    return importlib.metadata.version(names[0]) if names else "unknown"


class Memory:
    """An allocator that PyTorch keeps statistics of: all but pluggable ones."""

    def __init__(self, capacity: int | None) -> None:
        """`capacity` is the most bytes that it may hold; None: all that the GPU has."""
        import torch

        if capacity is not None:
            torch.cuda.set_per_process_memory_fraction(min(1.0, capacity / torch.cuda.mem_get_info()[1]))

    def figures(self) -> dict[str, int | None]:
        """The most bytes that tensors and the allocator held; how often memory was short, None where nobody knows."""
        import torch

        stats = torch.cuda.memory_stats()
        return {
            "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
            "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
            "alloc_retries": stats["num_alloc_retries"],
            "ooms": stats["num_ooms"],
        }

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether this is how it says that memory has run out."""
        import torch

        return isinstance(error, torch.cuda.OutOfMemoryError)


class RmmMemory(Memory):
    """RMM's pool over cudaMalloc, with its own books above and below the pool: PyTorch keeps none for it."""

    def __init__(self, capacity: int | None) -> None:
        import rmm
        import torch
        from rmm.allocators.torch import rmm_torch_allocator

        self._below: Any = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
        # The pool takes multiples of 256 bytes only, and starts from nothing, as the others.
        most = None if capacity is None else capacity // 256 * 256
        pool = rmm.mr.PoolMemoryResource(self._below, initial_pool_size=0, maximum_pool_size=most)
        self._above: Any = rmm.mr.StatisticsResourceAdaptor(pool)
        rmm.mr.set_current_device_resource(self._above)
        torch.cuda.memory.change_current_allocator(rmm_torch_allocator)

    def figures(self) -> dict[str, int | None]:
        above, below = self._above.allocation_counts.peak_bytes, self._below.allocation_counts.peak_bytes
        return {"peak_allocated_bytes": above, "peak_reserved_bytes": below, "alloc_retries": None, "ooms": None}

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError) or "bad_alloc" in str(error)


def install(name: str, capacity: int | None) -> Memory:
    """Puts the allocator in place, before anything is allocated; SETTINGS have been made in the environment."""
    if name == "rmm":
        return RmmMemory(capacity)
    if name == "frugal":
        import frugal_alloc

        frugal_alloc.enable()
    return Memory(capacity)
