"""The figures of a GPU that dashboards are given."""

from __future__ import annotations

from .. import _native


def by_gpu() -> dict[int, dict[str, int]]:
    """Of each GPU in use "allocated_bytes" (in tensors), "peak_bytes" of that, "reserved_bytes", "waste_bytes"
    (reserved, and in no tensor), "outside_bytes", "stitches" and "out_of_memory_errors".

    Outside: what neither frugal_alloc nor PyTorch's own allocator holds of the GPU, which CUDA, libraries and other
    programs do. Empty where frugal_alloc is not enabled. Makes a driver call for each GPU; waits for nothing.
    """
    library = _native.loaded()
    if library is None:
        return {}
    import torch

    figures = {}
    for gpu in library.gpus():
        # It starts CUDA in torch, without which there are no statistics.
        free, total = torch.cuda.mem_get_info(gpu)
        ours, both = library.stats(gpu), torch.cuda.memory_stats(gpu)
        reserved = both["reserved_bytes.all.current"]
        # What sleeps is allocated and takes nothing of the GPU.
        in_tensors = both["allocated_bytes.all.current"] - ours["asleep_bytes"]
        figures[gpu] = {
            "allocated_bytes": ours["allocated_bytes"],
            "peak_bytes": ours["peak_allocated_bytes"],
            "reserved_bytes": reserved,
            "waste_bytes": max(0, reserved - in_tensors),
            "outside_bytes": max(0, total - free - reserved),
            "stitches": ours["stitches"],
            "out_of_memory_errors": both["num_ooms"],
        }
    return figures
