"""Calls every function of PyTorch's that takes or returns memory, or says how it is to be taken."""

from __future__ import annotations

from typing import Any

import torch
from memory_call_results import (
    MIB,
    SAME,
    SHAPE,
    blocks_in_use,
    call,
    empty,
    failure_of,
    shape,
    shared_figures,
)
from torch.cuda import memory


@call("empty_cache", "accelerator.empty_cache")
def caches() -> None:
    for module in (memory, torch.accelerator):
        module.empty_cache()
        before = memory.memory_reserved()
        empty(200 * MIB)
        grown = memory.memory_reserved()
        returned = module.empty_cache()
        # Ours may have made a part of it from what was held beside memory in use.
        SAME[f"{module.__name__}.empty_cache"] = [returned, grown > before >= memory.memory_reserved()]


@call("caching_allocator_alloc", "caching_allocator_delete")
def raw_memory() -> None:
    before = memory.memory_allocated()
    stream = torch.cuda.Stream()
    taken = [memory.caching_allocator_alloc(1000), memory.caching_allocator_alloc(3 * MIB, 0, stream)]
    taken += [memory.caching_allocator_alloc(7, torch.device("cuda:0"), stream.cuda_stream)]
    SAME["caching_allocator_alloc"] = memory.memory_allocated() - before
    for pointer in taken:
        memory.caching_allocator_delete(pointer)
    SAME["caching_allocator_delete"] = memory.memory_allocated() - before
    SAME["nothing"] = [memory.caching_allocator_alloc(0), memory.caching_allocator_delete(0)]
    SAME["wrong stream"] = failure_of(lambda: memory.caching_allocator_alloc(1, stream="main"))
    SAME["unknown pointer"] = failure_of(lambda: memory.caching_allocator_delete(512)).split(":")[0]


@call("caching_allocator_enable", "caching_allocator_disabled")
def uncached() -> None:
    before = shared_figures(memory.memory_stats())
    memory.caching_allocator_enable(False)
    tensor = empty(3 * MIB)
    SAME["uncached"] = shared_figures(memory.memory_stats()) == before
    del tensor
    memory.caching_allocator_enable(True)
    if hasattr(memory, "caching_allocator_disabled"):
        with memory.caching_allocator_disabled():
            tensor = empty(3 * MIB)
            SAME["caching_allocator_disabled"] = shared_figures(memory.memory_stats()) == before
            SAME["is enabled"] = torch._C._cuda_cudaCachingAllocator_is_enabled()
        del tensor


@call("set_per_process_memory_fraction", "get_per_process_memory_fraction")
def fraction() -> None:
    total = memory.mem_get_info()[1]
    SAME["fraction at first"] = memory.get_per_process_memory_fraction()
    SAME["set_per_process_memory_fraction"] = memory.set_per_process_memory_fraction(0.25)
    SAME["get_per_process_memory_fraction"] = memory.get_per_process_memory_fraction(0)
    SAME["beyond the fraction"] = failure_of(lambda: empty(total // 2)).split(".")[0]
    held = empty(total // 8)
    memory.set_per_process_memory_fraction(1.0, "cuda:0")
    SAME["wrong fractions"] = [
        failure_of(lambda value=value: memory.set_per_process_memory_fraction(value)) for value in (2.0, -1.0, "all")
    ]
    del held


@call("MemPool", "use_mem_pool")
def pools() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        held = [empty(size) for size in (100, 3 * MIB)]
    outside = empty(3 * MIB)
    snapshot = pool.snapshot()
    SAME["MemPool"] = [pool.use_count(), pool.id[0], len(snapshot), blocks_in_use(snapshot)]
    SAME["MemPool"] += [memory.memory_snapshot(pool.id) == snapshot]
    SAME["MemPool.snapshot"] = sorted(s["segment_type"] for s in snapshot)
    SHAPE["MemPool.snapshot"] = shape(snapshot)
    SHAPE["MemPool.id"] = shape(pool.id)
    del held, outside


@call("get_allocator_backend", "CUDAPluggableAllocator", "change_current_allocator", "_CUDAAllocator")
@call("_get_current_allocator")
def allocators() -> None:
    SAME["get_allocator_backend"] = memory.get_allocator_backend()
    SAME["no such library"] = failure_of(lambda: memory.CUDAPluggableAllocator("/nowhere.so", "take", "give"))
    with open("/proc/self/maps") as maps:
        libc = next(line.split()[-1] for line in maps if "/libc.so" in line)
    pluggable = memory.CUDAPluggableAllocator(libc, "malloc", "free")
    SAME["change_current_allocator"] = failure_of(lambda: memory.change_current_allocator(pluggable))
    SHAPE["_get_current_allocator"] = shape([memory._get_current_allocator(), pluggable.allocator()])


@call("_set_allocator_settings")
def settings() -> None:
    SAME["_set_allocator_settings"] = failure_of(lambda: memory._set_allocator_settings("max_split_size_mb:100"))
    SAME["shown settings"] = _shown_settings()
    SAME["wrong settings"] = failure_of(lambda: memory._set_allocator_settings("max_split_size_mb:2"))
    memory._set_allocator_settings("max_split_size_mb:0" if torch.__version__ < "2.9" else "")
    SAME["settings as at first"] = _shown_settings()


def _shown_settings() -> dict[str, Any]:
    """Without the one that tells mapped memory, which test_switches.py is about."""
    shown = memory._snapshot()["allocator_settings"]
    shown.pop("expandable_segments")
    texts = shown["PYTORCH_CUDA_ALLOC_CONF"].split(",")
    return shown | {"PYTORCH_CUDA_ALLOC_CONF": [text for text in texts if text not in ("", "expandable_segments:True")]}
