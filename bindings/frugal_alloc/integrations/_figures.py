"""The figures of a GPU that dashboards are given."""

from __future__ import annotations

from .. import _native


def by_gpu() -> dict[int, dict[str, int]]:
    """Of each GPU in use: bytes "allocated" (in tensors), "peak" of that, "reserved" and "outside".

    Outside: what neither frugal_alloc nor PyTorch's own allocator holds of the GPU, which CUDA, libraries and other
    programs do. Empty where frugal_alloc is not enabled. Makes a driver call for each GPU; waits for nothing.
    """
    library = _native.loaded()
    if library is None:
        return {}
    import torch

    figures = {}
    for gpu in library.gpus():
        stats = library.stats(gpu)
        free, total = torch.cuda.mem_get_info(gpu)
        # Counts our memory and PyTorch's own together.
        reserved = torch.cuda.memory_reserved(gpu)
        figures[gpu] = {
            "allocated": stats["allocated_bytes"],
            "peak": stats["peak_allocated_bytes"],
            "reserved": reserved,
            "outside": max(0, total - free - reserved),
        }
    return figures
