"""torch.cuda.MemPool: its memory is native's, beside ours, and idle memory goes to where it is wanted."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from binding_helpers import (
    GIB,
    MIB,
    Simulation,
    cuda_runtime,
    empty,
    is_ours,
    limit,
    run_python,
    simulated_gpu,
)
from frugal_alloc import stats

pytestmark = pytest.mark.usefixtures("nothing_is_cached")


@pytest.fixture
def four_gib_limit():
    with limit(4 * GIB):
        yield


def pooled(pool: torch.cuda.MemPool, size: int) -> torch.Tensor:
    with torch.cuda.use_mem_pool(pool):
        return empty(size)


def test_memory_of_a_pool_is_natives():
    before = empty(3 * MIB)
    pool = torch.cuda.MemPool()
    tensor = pooled(pool, 3 * MIB)
    assert [segment["address"] for segment in pool.snapshot()] == [tensor.data_ptr()]
    assert (is_ours(before), is_ours(tensor), is_ours(empty(3 * MIB))) == (True, False, True)


@simulated_gpu
def test_memory_of_a_pool_used_by_another_stream_is_reused_only_after_it():
    simulation = Simulation()
    simulation.set_clock(10**12)
    pool, user = torch.cuda.MemPool(), torch.cuda.Stream()
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
    pool = torch.cuda.MemPool()
    before = torch.cuda.memory_allocated()
    address = pooled(pool, 3 * MIB).data_ptr()
    assert pooled(pool, 3 * MIB).data_ptr() == address
    assert torch.cuda.memory_allocated() == before


def test_other_threads_are_not_in_the_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool), ThreadPoolExecutor(1) as thread:
        assert is_ours(thread.submit(empty, 3 * MIB).result())


def test_pools_may_be_nested():
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
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


def test_memory_of_a_pool_that_is_gone_serves_ordinary_work(six_gib):
    pool = torch.cuda.MemPool()
    tensor = pooled(pool, 4 * GIB)
    with pytest.raises(torch.OutOfMemoryError):
        empty(3 * GIB)
    del tensor, pool
    assert is_ours(empty(3 * GIB))


def test_a_pool_that_is_kept_for_that_serves_ordinary_work_when_memory_is_out(six_gib):
    pool = torch.cuda.MemPool(use_on_oom=True)
    pooled(pool, 4 * GIB)
    before = torch.cuda.memory_stats()["num_ooms"]
    tensor = empty(3 * GIB)
    segments = [segment["address"] for segment in pool.snapshot()]
    assert tensor.data_ptr() in segments
    assert torch.cuda.memory_stats()["num_ooms"] == before


def test_errors_that_nobody_saw_before_a_reset_are_not_taken_off_after_it(six_gib):
    pool = torch.cuda.MemPool(use_on_oom=True)
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
        assert all(threads.map(fill, [torch.cuda.MemPool() for _ in range(4)]))


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
        torch.OutOfMemoryError, match=r"^CUDA out of memory\. Tried.*frugal_alloc holds 3\.\d+ GiB: 3\."
    ):
        pooled(torch.cuda.MemPool(), 1 << 44)
    assert is_ours(kept)


def test_what_a_pool_took_is_not_there_for_us(four_gib_limit):
    empty(MIB)
    pool = torch.cuda.MemPool()
    tensor = pooled(pool, 3 * GIB)
    with pytest.raises(torch.OutOfMemoryError):
        empty(2 * GIB)
    del tensor


def test_what_native_gave_back_is_there_for_us_at_once(four_gib_limit):
    pool = torch.cuda.MemPool()
    tensor = pooled(pool, 3 * GIB)
    del tensor, pool
    torch.cuda.empty_cache()
    retries = stats()["retries"]
    assert is_ours(empty(2 * GIB))
    assert stats()["retries"] == retries


def test_a_limit_is_for_pools_and_us_together(four_gib_limit):
    pool = torch.cuda.MemPool()
    kept = empty(3 * GIB)
    with pytest.raises(torch.OutOfMemoryError):
        pooled(pool, 2 * GIB)
    assert not is_ours(pooled(pool, 512 * MIB))
    assert torch.cuda.get_per_process_memory_fraction() == pytest.approx(4 * GIB / torch.cuda.mem_get_info()[1])
    assert is_ours(kept)


def test_idle_memory_of_ours_is_within_the_limit_for_a_pool(four_gib_limit):
    pool = torch.cuda.MemPool()
    empty(3 * GIB)
    assert not is_ours(pooled(pool, 3 * GIB))
