"""Memory pools and CUDA graphs: native's, beside our memory."""

import pytest
import torch
from binding_helpers import MIB, empty, is_ours


def test_memory_of_a_pool_is_natives():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        pooled = empty(3 * MIB)
    assert not is_ours(pooled)
    assert [segment["address"] for segment in pool.snapshot()] == [pooled.data_ptr()]
    assert is_ours(empty(3 * MIB))


def test_memory_of_a_pool_has_the_standard_deleter():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        pooled = empty(3 * MIB)
    assert torch._C._has_Standard_Deleter(pooled.untyped_storage()._cdata)


def test_memory_of_a_pool_used_by_another_stream_is_freed_by_native():
    pool = torch.cuda.MemPool()
    before = torch.cuda.memory_allocated()
    with torch.cuda.use_mem_pool(pool):
        pooled = empty(3 * MIB)
    pooled.record_stream(torch.cuda.Stream())
    del pooled
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == before


def test_memory_of_a_pool_is_freed_into_it():
    pool = torch.cuda.MemPool()
    before = torch.cuda.memory_allocated()
    with torch.cuda.use_mem_pool(pool):
        pooled = empty(3 * MIB)
    address = pooled.data_ptr()
    del pooled
    with torch.cuda.use_mem_pool(pool):
        again = empty(3 * MIB)
    assert again.data_ptr() == address
    del again
    assert torch.cuda.memory_allocated() == before


def test_other_threads_are_not_in_the_pool():
    from concurrent.futures import ThreadPoolExecutor

    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool), ThreadPoolExecutor(1) as thread:
        assert is_ours(thread.submit(empty, 3 * MIB).result())


def test_pools_may_be_nested():
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(outer):
        with torch.cuda.use_mem_pool(inner):
            first = empty(3 * MIB)
        second = empty(3 * MIB)
    assert not is_ours(first)
    assert not is_ours(second)
    assert is_ours(empty(3 * MIB))


def test_graph_is_captured_and_replayed():
    static = empty(4 * MIB)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        produced = static + 1
    assert is_ours(static)
    assert not is_ours(produced)
    graph.replay()
    torch.cuda.synchronize()
    assert is_ours(empty(4 * MIB))


def test_our_memory_freed_while_capturing_is_kept_from_the_graph():
    other = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    victim = empty(6 * MIB)
    victim.record_stream(other)
    with torch.cuda.graph(graph):
        inside = empty(MIB)
        del victim
    assert not is_ours(inside)
    graph.replay()
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["active_bytes.all.current"]
    torch.cuda.empty_cache()
    assert torch.cuda.memory_stats()["active_bytes.all.current"] <= before


def test_our_memory_used_by_the_captured_stream_is_freed_while_it_captures():
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    victim = empty(6 * MIB)
    victim.record_stream(stream)
    with torch.cuda.graph(graph, stream=stream):
        inside = empty(MIB)
        del victim
    graph.replay()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert not is_ours(inside)


def test_another_thread_allocates_while_one_captures():
    from concurrent.futures import ThreadPoolExecutor

    def allocate() -> bool:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            tensors = [empty((i + 1) * 5 * MIB) for i in range(20)]
            for tensor in tensors:
                tensor.record_stream(torch.cuda.default_stream())
            ours = all(map(is_ours, tensors))
            del tensors
        return ours

    graph = torch.cuda.CUDAGraph()
    with ThreadPoolExecutor(1) as thread, torch.cuda.graph(graph):
        empty(MIB)
        assert thread.submit(allocate).result()
    graph.replay()
    torch.cuda.synchronize()


def test_running_out_while_capturing_is_an_ordinary_error():
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(torch.OutOfMemoryError), torch.cuda.graph(graph):
        empty(1 << 44)
    torch.cuda.synchronize()
    assert is_ours(empty(MIB))


def test_graph_trees_pools_are_checkpointed():
    device, pool = 0, torch.cuda.graph_pool_handle()

    def pooled(size: int) -> torch.Tensor:
        torch._C._cuda_beginAllocateCurrentThreadToPool(device, pool)
        try:
            return empty(size)
        finally:
            torch._C._cuda_endAllocateToPool(device, pool)

    first, second = pooled(4 * MIB), pooled(MIB)
    assert torch._C._cuda_checkPoolLiveAllocations(device, pool, {first.data_ptr(), second.data_ptr()})
    state = torch._C._cuda_getCheckpointState(device, pool)
    storage = pooled(4 * MIB).untyped_storage()
    assert torch._C._has_Standard_Deleter(storage._cdata)
    torch._C._cuda_setCheckpointPoolState(device, state, [storage._cdata], [])
    assert torch._C._cuda_checkPoolLiveAllocations(device, pool, {first.data_ptr(), second.data_ptr()})
    torch._C._cuda_releasePool(device, pool)


def test_enabling_inside_a_pool_is_refused():
    from binding_helpers import run_python

    result = run_python(
        """
import torch, frugal_alloc
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    held = torch.empty(1000, device="cuda")
    try:
        frugal_alloc.enable()
    except frugal_alloc.FrugalAllocError as error:
        report(error=str(error))
report(enabled=frugal_alloc.is_enabled())
frugal_alloc.enable()
report(later=frugal_alloc.is_enabled())
"""
    )
    assert "use_mem_pool" in result["error"]
    assert (result["enabled"], result["later"]) == (False, True)


def test_pool_made_before_the_swap_goes_on():
    from binding_helpers import run_python

    result = run_python(
        """
import torch, frugal_alloc
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    first = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
graph = torch.cuda.CUDAGraph()
static = torch.empty(1 << 20, device="cuda")
with torch.cuda.graph(graph):
    produced = static + 1
frugal_alloc.enable()
with torch.cuda.use_mem_pool(pool):
    second = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
graph.replay()
torch.cuda.synchronize()
report(native=not frugal_alloc._native.load().owns(second.data_ptr()),
       pooled=sum(segment["allocated_size"] for segment in pool.snapshot()) == 6 << 20)
del graph, produced, first, second, pool
"""
    )
    assert (result["native"], result["pooled"], result["status"]) == (True, True, 0)
