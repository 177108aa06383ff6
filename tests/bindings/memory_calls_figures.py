"""Calls every function of PyTorch's that gives figures about memory, or resets them."""

from __future__ import annotations

import sys

import torch
from memory_call_results import (
    KIB,
    MIB,
    SAME,
    SHAPE,
    call,
    empty,
    failure_of,
    shape,
    shared_figures,
)
from torch.cuda import memory


@call("memory_stats", "memory_stats_as_nested_dict", "accelerator.memory_stats")
def statistics() -> None:
    SAME["memory_stats"] = shared_figures(memory.memory_stats())
    SHAPE["memory_stats"] = shape(memory.memory_stats())
    SHAPE["memory_stats_as_nested_dict"] = shape(memory.memory_stats_as_nested_dict())
    SAME["accelerator.memory_stats"] = shared_figures(torch.accelerator.memory_stats())
    SHAPE["accelerator.memory_stats"] = shape(torch.accelerator.memory_stats())


@call("memory_allocated", "max_memory_allocated", "accelerator.memory_allocated", "accelerator.max_memory_allocated")
def allocated() -> None:
    more = [empty(size) for size in (1, 512, 700 * KIB, 5 * MIB + 1)]
    inside = memory.memory_allocated()
    del more
    figures = [inside, memory.memory_allocated(), memory.max_memory_allocated(), memory.memory_allocated(0)]
    figures += [torch.accelerator.memory_allocated(), torch.accelerator.max_memory_allocated()]
    SAME["memory_allocated"] = figures


@call("memory_reserved", "max_memory_reserved", "memory_cached", "max_memory_cached")
@call("accelerator.memory_reserved", "accelerator.max_memory_reserved")
def reserved() -> None:
    figures = [memory.memory_reserved(), memory.memory_cached(), torch.accelerator.memory_reserved()]
    peaks = [memory.max_memory_reserved(), memory.max_memory_cached(), torch.accelerator.max_memory_reserved()]
    SAME["memory_reserved"] = [len(set(figures)), len(set(peaks)), figures[0] <= peaks[0]]
    SAME["memory_reserved"] += [memory.memory_allocated() <= figures[0] <= memory.mem_get_info()[1]]
    SHAPE["memory_reserved"] = shape(figures + peaks)


@call(
    "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached", "reset_accumulated_memory_stats"
)
@call("accelerator.reset_peak_memory_stats", "accelerator.reset_accumulated_memory_stats")
def resets() -> None:
    for name in ("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached"):
        empty(30 * MIB)
        SAME[name] = [getattr(memory, name)(), memory.max_memory_allocated() - memory.memory_allocated()]
        SAME[name] += [memory.max_memory_reserved() - memory.memory_reserved()]
    empty(30 * MIB)
    SAME["accelerator.reset_peak"] = [torch.accelerator.reset_peak_memory_stats(), memory.max_memory_allocated()]
    for module in (memory, torch.accelerator):
        empty(3 * MIB)
        returned = module.reset_accumulated_memory_stats()
        figures = shared_figures(memory.memory_stats())
        SAME[f"{module.__name__}.reset_accumulated_memory_stats"] = [returned, figures]


@call("memory_summary")
def summary() -> None:
    texts = [memory.memory_summary(), memory.memory_summary(abbreviated=True), memory.memory_summary(0)]
    SAME["memory_summary"] = [[line.split("|")[:2] for line in text.splitlines()] for text in texts]
    rows = [line for line in texts[0].splitlines() if line.startswith(("| Allocated memory", "| Active", "| Alloca"))]
    SAME["memory_summary rows"] = rows


@call("mem_get_info", "accelerator.get_memory_info", "list_gpu_processes")
def device_memory() -> None:
    free, total = memory.mem_get_info()
    SAME["mem_get_info"] = [type(free).__name__, total, memory.mem_get_info(0)[1], 0 < free < total]
    if hasattr(torch.accelerator, "get_memory_info"):
        SAME["accelerator.get_memory_info"] = torch.accelerator.get_memory_info() == memory.mem_get_info()
    SAME["list_gpu_processes"] = failure_of(lambda: print(memory.list_gpu_processes(), file=sys.stderr))


@call("host_memory_stats", "host_memory_stats_as_nested_dict", "_host_allocator")
@call("reset_accumulated_host_memory_stats", "reset_peak_host_memory_stats", "accelerator.empty_host_cache")
def host_memory() -> None:
    pinned = torch.empty(3 * MIB, pin_memory=True)
    stats = memory.host_memory_stats()
    SAME["host_memory_stats"] = {name: value for name, value in stats.items() if "time" not in name}
    SHAPE["host_memory_stats"] = shape([stats, memory.host_memory_stats_as_nested_dict()])
    del pinned
    memory.reset_peak_host_memory_stats()
    memory.reset_accumulated_host_memory_stats()
    if hasattr(torch.accelerator, "empty_host_cache"):
        torch.accelerator.empty_host_cache()
    after = memory.host_memory_stats()
    SAME["host_memory_stats after resets"] = {name: value for name, value in after.items() if "time" not in name}
    SHAPE["_host_allocator"] = shape(memory._host_allocator())
