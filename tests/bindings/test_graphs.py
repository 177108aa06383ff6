"""CUDA graphs: their memory is native's, beside ours, and idle memory goes to where it is wanted."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from binding_helpers import GIB, MIB, empty, is_ours

pytestmark = pytest.mark.usefixtures("nothing_is_cached")


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


def test_nobody_asks_whether_a_captured_stream_has_passed():
    graph = torch.cuda.CUDAGraph()
    stream, other = torch.cuda.Stream(), torch.cuda.Stream()
    victim = empty(6 * MIB)
    victim.record_stream(stream)
    with torch.cuda.graph(graph, stream=stream):
        inside = empty(MIB)
        del victim
        with torch.cuda.stream(other):
            outside = empty(6 * MIB)
    graph.replay()
    assert (is_ours(inside), is_ours(outside)) == (False, True)


def test_another_thread_allocates_while_one_captures():
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


def test_idle_memory_of_ours_serves_a_capture(six_gib):
    graph = torch.cuda.CUDAGraph()
    empty(5 * GIB)
    with torch.cuda.graph(graph):
        produced = empty(3 * GIB)
    graph.replay()
    assert not is_ours(produced)


def test_memory_of_a_graph_that_is_gone_serves_ordinary_work(six_gib):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        produced = empty(4 * GIB)
    with pytest.raises(torch.OutOfMemoryError):
        empty(3 * GIB)
    del graph, produced
    assert is_ours(empty(3 * GIB))


def test_a_module_is_trained_as_a_graph():
    module = torch.nn.Linear(64, 64, device="cuda")
    graphed = torch.cuda.make_graphed_callables(module, (torch.zeros(8, 64, device="cuda", requires_grad=True),))
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        graphed(torch.zeros(8, 64, device="cuda", requires_grad=True)).sum().backward()
        module.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


def test_a_compiled_module_runs_as_graph_trees():
    # Shapes that take turns: each turn goes back to a checkpoint of the pool.
    layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).cuda()
    module = torch.compile(layers, backend="cudagraphs", dynamic=False)
    held = []
    for rows in (4, 8, 4, 8, 4, 8):
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            module(torch.zeros(rows, 64, device="cuda"))
        held.append(torch.cuda.memory_reserved())
    assert held[-1] == held[-2] == held[-3], "a graph that was captured takes no more memory"
    torch._dynamo.reset()
