"""CUDA graphs and native's pools: their memory lies beside ours, and idle memory goes to where it is wanted."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from binding_helpers import (
    GIB,
    MIB,
    Simulation,
    collect,
    cuda_runtime,
    empty,
    is_ours,
    limit,
    native_pool,
    room,
    run_python,
    simulated_gpu,
)
from frugal_alloc import memory_stats


@pytest.fixture(autouse=True)
def nothing_is_cached():
    yield
    collect()
    torch.cuda.empty_cache()


@pytest.fixture
def six_gib():
    """Just so much of the GPU can be had."""
    with room(6 * GIB):
        yield


@pytest.fixture
def four_gib_limit():
    with limit(4 * GIB):
        yield


# --- Graphs


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


# --- Pools


def pooled(pool: torch.cuda.MemPool, size: int) -> torch.Tensor:
    with torch.cuda.use_mem_pool(pool):
        return empty(size)


@simulated_gpu
@pytest.mark.parametrize("make", [native_pool, torch.cuda.MemPool])
def test_memory_of_a_pool_used_by_another_stream_is_reused_only_after_it(make):
    simulation = Simulation()
    simulation.set_clock(10**12)
    pool, user = make(), torch.cuda.Stream()
    with simulation.nothing_unordered():
        for _ in range(3):
            tensor = pooled(pool, 3 * MIB).zero_()
            user.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(user):
                tensor.sum()
            simulation.keep_busy(user, 2 * 10**12)
            tensor.record_stream(user)
            del tensor


def test_memory_of_a_pool_is_freed_into_it():
    pool = native_pool()
    before = torch.cuda.memory_allocated()
    address = pooled(pool, 3 * MIB).data_ptr()
    assert pooled(pool, 3 * MIB).data_ptr() == address
    assert torch.cuda.memory_allocated() == before


def test_other_threads_are_not_in_the_pool():
    pool = native_pool()
    with torch.cuda.use_mem_pool(pool), ThreadPoolExecutor(1) as thread:
        assert is_ours(thread.submit(empty, 3 * MIB).result())


def test_pools_may_be_nested():
    outer, inner = native_pool(), native_pool()
    with torch.cuda.use_mem_pool(outer):
        first = pooled(inner, 3 * MIB)
        second = empty(3 * MIB)
    assert (is_ours(first), is_ours(second), is_ours(empty(3 * MIB))) == (False, False, True)


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


def test_pool_made_before_the_swap_goes_on():
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


@pytest.mark.parametrize("kind", ["graph", "pool"])
def test_memory_of_a_graph_or_a_pool_that_is_gone_serves_ordinary_work(kind, six_gib):
    owner = torch.cuda.CUDAGraph() if kind == "graph" else native_pool()
    with torch.cuda.graph(owner) if kind == "graph" else torch.cuda.use_mem_pool(owner):
        tensor = empty(4 * GIB)
    with pytest.raises(torch.OutOfMemoryError):
        empty(3 * GIB)
    del tensor, owner
    assert is_ours(empty(3 * GIB))


def test_a_pool_that_is_kept_for_that_serves_ordinary_work_when_memory_is_out(six_gib):
    pool = torch.cuda.MemPool(use_on_oom=True)
    torch._C._cuda_getCheckpointState(0, pool.id)
    pooled(pool, 4 * GIB)
    before = torch.cuda.memory_stats()["num_ooms"]
    tensor = empty(3 * GIB)
    segments = [segment["address"] for segment in pool.snapshot()]
    assert tensor.data_ptr() in segments
    assert torch.cuda.memory_stats()["num_ooms"] == before


def test_errors_that_nobody_saw_before_a_reset_are_not_taken_off_after_it(six_gib):
    pool = torch.cuda.MemPool(use_on_oom=True)
    torch._C._cuda_getCheckpointState(0, pool.id)
    pooled(pool, 4 * GIB)
    held = empty(3 * GIB)
    torch.cuda.reset_accumulated_memory_stats()
    assert torch.cuda.memory_stats()["num_ooms"] == 0
    del held


def test_each_thread_is_in_its_own_pool():
    def fill(pool: torch.cuda.MemPool) -> bool:
        with torch.cuda.use_mem_pool(pool):
            tensors = [empty(3 * MIB) for _ in range(20)]
            ranges = [(one["address"], one["address"] + one["total_size"]) for one in pool.snapshot()]
            return all(any(start <= tensor.data_ptr() < end for start, end in ranges) for tensor in tensors)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(fill, [native_pool() for _ in range(4)]))


def test_a_users_own_allocator_stands_behind_a_pool():
    runtime = cuda_runtime()
    live = set()

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    def allocate(size, device, stream):
        pointer = ctypes.c_void_p()
        assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
        live.add(pointer.value)
        return pointer.value

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    def free(pointer, size, device, stream):
        live.remove(pointer)
        assert runtime.cudaFree(ctypes.c_void_p(pointer)) == 0

    allocator = torch._C._cuda_customAllocator(*(ctypes.cast(f, ctypes.c_void_p).value for f in (allocate, free)))
    pool = torch.cuda.MemPool(allocator)
    tensor = pooled(pool, 30 * MIB)
    assert tensor.data_ptr() in live
    assert is_ours(empty(30 * MIB))
    del tensor, pool
    torch.cuda.empty_cache()
    assert not live


def test_an_error_inside_a_pool_tells_of_our_memory_too():
    kept = empty(3 * GIB)
    with pytest.raises(
        torch.OutOfMemoryError, match=r"^CUDA out of memory\. Tried.*frugal_alloc has reserved 3\.\d+ GiB: 3\."
    ):
        pooled(native_pool(), 1 << 44)
    assert is_ours(kept)


def test_what_a_pool_took_is_not_there_for_us(four_gib_limit):
    empty(MIB)
    pool = native_pool()
    tensor = pooled(pool, 3 * GIB)
    with pytest.raises(torch.OutOfMemoryError):
        empty(2 * GIB)
    del tensor


def test_what_native_gave_back_is_there_for_us_at_once(four_gib_limit):
    pool = native_pool()
    tensor = pooled(pool, 3 * GIB)
    del tensor, pool
    torch.cuda.empty_cache()
    retries = memory_stats()["retries"]
    assert is_ours(empty(2 * GIB))
    assert memory_stats()["retries"] == retries


def test_a_limit_is_for_pools_and_us_together(four_gib_limit):
    pool = native_pool()
    kept = empty(3 * GIB)
    with pytest.raises(torch.OutOfMemoryError):
        pooled(pool, 2 * GIB)
    assert not is_ours(pooled(pool, 512 * MIB))
    assert torch.cuda.get_per_process_memory_fraction() == pytest.approx(4 * GIB / torch.cuda.mem_get_info()[1])
    assert is_ours(kept)


def test_idle_memory_of_ours_is_within_the_limit_for_a_pool(four_gib_limit):
    pool = native_pool()
    empty(3 * GIB)
    assert not is_ours(pooled(pool, 3 * GIB))
