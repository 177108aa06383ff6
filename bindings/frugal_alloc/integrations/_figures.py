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


def counts_by_gpu() -> dict[int, dict[str, int]]:
    """Of each GPU in use: "stitches", "out_of_memory_errors", and "waste_bytes", what is held and in no tensor. Makes
    no driver call."""
    library = _native.loaded()
    if library is None:
        return {}
    import torch

    counts = {}
    for gpu in library.gpus():
        stats, ours = torch.cuda.memory_stats(gpu), library.stats(gpu)
        # What sleeps is allocated and takes nothing of the GPU.
        in_tensors = stats["allocated_bytes.all.current"] - ours["asleep_bytes"]
        counts[gpu] = {
            "stitches": ours["stitches"],
            "out_of_memory_errors": stats["num_ooms"],
            "waste_bytes": max(0, stats["reserved_bytes.all.current"] - in_tensors),
        }
    return counts
