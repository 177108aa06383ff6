"""Everyday calls of torch.cuda about memory: the same types and keys before and after enable()."""

import pytest
from binding_helpers import run_python

CALLS = {
    "memory_allocated": "torch.cuda.memory_allocated()",
    "max_memory_allocated": "torch.cuda.max_memory_allocated()",
    "memory_reserved": "torch.cuda.memory_reserved()",
    "max_memory_reserved": "torch.cuda.max_memory_reserved()",
    "memory_stats": "torch.cuda.memory_stats()",
    "memory_stats_nested": "torch.cuda.memory_stats_as_nested_dict()",
    "memory_summary": "torch.cuda.memory_summary()",
    "memory_snapshot": "torch.cuda.memory_snapshot()",
    "snapshot": "torch.cuda.memory._snapshot()",
    "mem_get_info": "torch.cuda.mem_get_info()",
    "fraction": "torch.cuda.get_per_process_memory_fraction()",
    "backend": "torch.cuda.get_allocator_backend()",
    "empty_cache": "torch.cuda.empty_cache()",
    "reset_peak": "torch.cuda.reset_peak_memory_stats()",
    "reset_accumulated": "torch.cuda.reset_accumulated_memory_stats()",
    "set_fraction": "torch.cuda.set_per_process_memory_fraction(0.9)",
    "host_stats": "torch.cuda.host_memory_stats()",
    "accelerator_stats": "torch.accelerator.memory_stats()",
    "accelerator_allocated": "torch.accelerator.memory_allocated()",
    "pool_id": "torch.cuda.MemPool().id",
}

PROGRAM = """
import torch, frugal_alloc

def shape(value, depth=0):
    if isinstance(value, dict):
        # Figures by pool have a key for each pool that there is.
        names = [k for k in value if depth or "private_pools" not in str(k)]
        return ["dict", {str(k): shape(value[k], depth + 1) for k in names}]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, shape(value[0], depth + 1) if value else None]
    return type(value).__name__

def all_shapes():
    held = [torch.empty(size, device="cuda") for size in (100, 1_000_000)]
    shapes = {}
    for name, call in CALLS.items():
        shapes[name] = shape(eval(call))
    torch.cuda.set_per_process_memory_fraction(1.0)
    return shapes

before = all_shapes()
frugal_alloc.enable()
after = all_shapes()
report(before=before, after=after)
"""


@pytest.fixture(scope="module")
def shapes():
    result = run_python(f"CALLS = {CALLS!r}\n" + PROGRAM)
    assert result["status"] == 0, result["stderr"]
    return result


@pytest.mark.parametrize("call", CALLS)
def test_types_and_keys_are_the_same_before_and_after(shapes, call):
    assert shapes["after"][call] == shapes["before"][call]
