"""Calls what may be refused: too much memory, and managed memory. The observer of errors stays, so these come last."""

from __future__ import annotations

import torch
from memory_call_results import MIB, SAME, call, empty, failure_of, shared_figures
from torch.cuda import memory


@call("_cuda_attach_out_of_memory_observer")
def out_of_memory() -> None:
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda device, size, total, free: seen.append([device, size, total]))
    SAME["out of memory"] = [failure_of(lambda: empty(1 << 44)).split(". GPU 0")[0] for _ in range(2)]
    SAME["observed"] = seen
    SAME["too much"] = failure_of(lambda: empty(1 << 61))
    SAME["figures after"] = shared_figures(memory.memory_stats())


@call("_make_uvm_allocator", "_use_uvm")
def managed_memory() -> None:
    if hasattr(memory, "_use_uvm"):
        SAME["_use_uvm"] = failure_of(use_managed_memory).split(". GPU")[0]


def use_managed_memory() -> None:
    with memory._use_uvm():
        empty(3 * MIB)
