"""CUDA graphs: memory of ours that stays where it is, within the same limit as all other."""

import pytest
import torch
from binding_helpers import (
    MIB,
    captured,
    empty,
    is_mapped,
    is_ours,
    run_python,
    segment_of,
)

pytestmark = pytest.mark.usefixtures("nothing_is_cached")


# --- Graphs


def test_a_graph_is_replayed_in_memory_of_ours_that_stays_where_it_is():
    static = empty(4 * MIB)
    graph, produced = captured(static)
    address = produced.data_ptr()
    assert is_ours(produced) and not is_mapped(produced)
    assert segment_of(produced)["segment_pool_id"] == graph.pool()
    # Of other memory that others are to open there is a copy at another address.
    handle = produced.untyped_storage()._share_cuda_()
    assert produced.data_ptr() == address
    torch.UntypedStorage._release_ipc_counter(handle[4], handle[5], device=handle[0])
    for value in (3, 5):
        static.fill_(value)
        graph.replay()
        assert produced.cpu().eq(value).all()
    assert is_mapped(empty(4 * MIB))


def test_our_memory_freed_while_capturing_is_kept_from_the_graph():
    other = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    victim = empty(6 * MIB)
    address = victim.data_ptr()
    victim.record_stream(other)
    with torch.cuda.graph(graph):
        inside = empty(6 * MIB)
        del victim
        again = empty(6 * MIB)
    assert address not in (inside.data_ptr(), again.data_ptr())
    graph.replay()
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["active_bytes.all.current"]
    torch.cuda.empty_cache()
    assert torch.cuda.memory_stats()["active_bytes.all.current"] <= before


def test_a_module_is_trained_as_a_graph():
    module = torch.nn.Linear(64, 64, device="cuda")
    graphed = torch.cuda.make_graphed_callables(module, (torch.zeros(8, 64, device="cuda", requires_grad=True),))
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        graphed(torch.zeros(8, 64, device="cuda", requires_grad=True)).sum().backward()
        module.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


# --- What is older than enabling


def test_enabling_inside_a_pool_is_refused():
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


def test_a_pool_and_a_graph_that_are_older_than_enabling_go_on():
    result = run_python(
        """
import torch, frugal_alloc
def pooled():
    with torch.cuda.use_mem_pool(pool):
        return torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
first, static = pooled(), torch.empty(1 << 20, device="cuda")
with torch.cuda.graph(graph):
    produced = static.clone()
frugal_alloc.enable()
second = pooled()
static.fill_(7)
graph.replay()
frugal_alloc.disable()
third = pooled()
owns = frugal_alloc._native.load().owns
report(value=float(produced[-1]), ours=[owns(tensor.data_ptr()) for tensor in (first, second, third)],
       pooled=sum(segment["allocated_size"] for segment in pool.snapshot()) >> 20)
del graph, produced, first, second, third, pool
torch.cuda.empty_cache()
report(left=torch.cuda.memory_allocated() >> 20)
"""
    )
    assert (result["value"], result["pooled"], result["left"], result["status"]) == (7, 9, 4, 0), result
    assert result["ours"] == [False, True, False]


# --- What there is for all
