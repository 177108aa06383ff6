"""A private pool that nobody holds goes back at once, but never from under work, a capture or another graph."""

from __future__ import annotations

import ctypes
import gc
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, Simulation, collect, cuda_runtime, empty, is_ours, native_pool, run_well, simulated_gpu
from frugal_alloc import _native

RELAXED = 2  # cudaStreamCaptureMode


def miss() -> None:
    """Asks for more than all that is free."""
    stats = frugal_alloc.memory_stats()
    empty(stats["reserved_bytes"] - stats["allocated_bytes"] + 2 * MIB)


def held() -> int:
    """By PyTorch's own allocator."""
    return frugal_alloc.memory_stats()["native_reserved_bytes"]


def capture(size: int = 64 * MIB, **how: object) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """A graph and its output."""
    values = torch.zeros(size, dtype=torch.uint8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **how):
        result = values + 1
    # Read by replays.
    graph.values = values
    torch.cuda.synchronize()
    return graph, result


@pytest.fixture(autouse=True)
def nothing_is_cached():
    gc.collect()
    empty(MIB)
    collect()
    torch.cuda.empty_cache()
    yield
    collect()
    torch.cuda.empty_cache()


def test_a_graph_that_is_reset_gives_its_memory_back_at_once() -> None:
    before = held()
    graph, result = capture()
    graph.replay()
    torch.cuda.synchronize()
    assert held() == before + 64 * MIB
    del result
    graph.reset()
    assert held() == before


def test_what_a_result_keeps_goes_back_after_the_result() -> None:
    before = held()
    graph, result = capture()
    del graph
    assert held() == before + 64 * MIB
    assert result.numel() == 64 * MIB
    del result
    miss()
    assert held() == before


def test_graphs_that_share_a_pool_keep_it_until_the_last_is_reset() -> None:
    before = held()
    first, result = capture()
    second, other = capture(pool=first.pool())
    del result, other
    first.reset()
    miss()
    assert held() > before
    second.replay()
    torch.cuda.synchronize()
    second.reset()
    assert held() == before


@pytest.mark.parametrize("kind", ["graph", "pool"])
def test_nothing_is_given_back_while_another_thread_captures(kind: str) -> None:
    before = held()
    if kind == "graph":
        owner, kept = capture()
    else:
        owner = native_pool()
        with torch.cuda.use_mem_pool(owner):
            kept = empty(64 * MIB)
    graph = torch.cuda.CUDAGraph()
    with ThreadPoolExecutor(1) as thread:
        stream = torch.cuda.Stream()

        def begin() -> None:
            with torch.cuda.stream(stream):
                # A GPU allows nobody to delete a graph while a capture is global.
                graph.capture_begin(capture_error_mode="thread_local")

        def end() -> None:
            with torch.cuda.stream(stream):
                empty(MIB)
                graph.capture_end()

        torch.cuda.synchronize()
        thread.submit(begin).result()
        del kept, owner
        miss()
        assert held() == before + 64 * MIB
        thread.submit(end).result()
    graph.replay()
    torch.cuda.synchronize()
    graph.reset()
    miss()
    assert held() == before


def test_nothing_is_given_back_within_a_capture_that_is_not_pytorchs() -> None:
    before = held()
    graph, result = capture()
    runtime, captured = cuda_runtime(), ctypes.c_void_p()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        empty(MIB)
        torch.cuda.synchronize()
        assert runtime.cudaStreamBeginCapture(ctypes.c_void_p(stream.cuda_stream), RELAXED) == 0
    del result
    graph.reset()
    assert held() == before + 64 * MIB
    assert runtime.cudaStreamEndCapture(ctypes.c_void_p(stream.cuda_stream), ctypes.byref(captured)) == 0
    assert captured
    miss()
    assert held() == before


def test_threads_capture_while_others_reset_graphs_and_delete_pools() -> None:
    before, one_captures = held(), threading.Lock()

    def work(seed: int) -> None:
        chance, stream = random.Random(seed), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(20):
                values = torch.zeros(chance.randint(1, 20) * MIB, dtype=torch.uint8, device="cuda")
                stream.synchronize()
                with one_captures:
                    graph = torch.cuda.CUDAGraph()
                    graph.capture_begin(capture_error_mode="thread_local")
                    result = values + 1
                    graph.capture_end()
                    graph.replay()
                    stream.synchronize()
                pool = torch.cuda.MemPool()
                with torch.cuda.use_mem_pool(pool):
                    tensor = empty(chance.randint(1, 30) * MIB)
                if chance.random() < 0.5:
                    del result
                del tensor, pool
                graph.reset()
                empty(chance.randint(1, 200) * MIB)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    torch.cuda.synchronize()
    miss()
    assert held() == before


def test_what_another_graph_may_read_stays_while_that_one_lives() -> None:
    """Its address is in the other graph. PyTorch's allocator leaves it mapped until memory is out."""
    before = held()
    first, made = capture()
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second):
        result = made + 1
    del made
    first.reset()
    miss()
    assert held() == before + 128 * MIB
    second.replay()
    torch.cuda.synchronize()
    del result
    second.reset()
    assert held() == before


def test_a_graph_that_was_captured_before_a_pool_was_made_does_not_keep_it() -> None:
    training, step = capture()
    before = held()
    evaluation, result = capture()
    del result
    evaluation.reset()
    assert held() == before
    training.replay()
    torch.cuda.synchronize()
    del step


def test_memory_that_is_free_in_a_graphs_pool_is_nobody_elses() -> None:
    """Replays read what was made in the capture, though its tensor is gone; a NIC may have registered the pages."""
    graph = torch.cuda.CUDAGraph()
    values = torch.zeros(MIB, dtype=torch.uint8, device="cuda")
    with torch.cuda.graph(graph):
        table = values.repeat(64)
        result = table + 1
        address = table.data_ptr()
        del table
    before = held()
    graph.replay()
    others = [empty(32 * MIB) for _ in range(8)]
    torch.cuda.empty_cache()
    _native.load().release_idle()
    assert held() == before
    (segment,) = (
        segment
        for segment in torch.cuda.memory_snapshot()
        if segment["address"] <= address < segment["address"] + segment["total_size"]
    )
    assert not is_ours(address) and not segment["is_expandable"]
    start, end = segment["address"], segment["address"] + segment["total_size"]
    assert not any(start <= other.data_ptr() < end for other in others)
    graph.replay()
    torch.cuda.synchronize()
    del result


def test_a_checkpoint_of_a_pool_is_restored_after_another_pool_has_gone_back() -> None:
    device, pool = 0, torch.cuda.graph_pool_handle()
    torch._C._cuda_beginAllocateCurrentThreadToPool(device, pool)
    kept, gone = empty(4 * MIB), empty(64 * MIB)
    torch._C._cuda_endAllocateToPool(device, pool)
    addresses = {kept.data_ptr(), gone.data_ptr()}
    state = torch._C._cuda_getCheckpointState(device, pool)
    del gone
    graph, result = capture()
    del result, graph
    miss()
    torch._C._cuda_setCheckpointPoolState(device, state, [kept.untyped_storage()._cdata], [])
    assert torch._C._cuda_checkPoolLiveAllocations(device, pool, addresses)
    torch._C._cuda_releasePool(device, pool)


def test_the_id_of_a_pool_that_went_back_may_be_used_again() -> None:
    before = held()
    pool = torch.cuda.graph_pool_handle()
    for _ in range(3):
        graph, result = capture(pool=pool)
        graph.replay()
        torch.cuda.synchronize()
        del result
        graph.reset()
        assert held() == before


def test_pools_are_left_alone_while_history_is_recorded() -> None:
    """What is recorded is what PyTorch's allocator would have done; and to record a stack may need Python's lock."""
    before = held()
    graph, result = capture()
    del result
    torch.cuda.memory._record_memory_history()
    try:
        graph.reset()
        miss()
        assert held() == before + 64 * MIB
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    torch.cuda.synchronize()
    miss()
    assert held() == before


def test_a_capture_that_failed_leaves_others_pools_where_they_are() -> None:
    """PyTorch 2.11 never learns that it is over, and goes on as if one were under way."""
    result = run_well(
        """
import torch, frugal_alloc
frugal_alloc.enable()
values = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
held = lambda: frugal_alloc.memory_stats()["native_reserved_bytes"]
good, bad = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(good):
    made = values + 1
try:
    with torch.cuda.graph(bad):
        lost = values + 1
        torch.cuda.synchronize()
except RuntimeError as error:
    report(error=str(error))
before = held()
del bad, made, lost
torch.cuda.synchronize()
good.reset()
torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
report(given=before - held(), told=sorted(pool.holders for pool in frugal_alloc._native.load().private_pools()))
with torch.cuda.graph(good):
    made = values + 1
good.replay()
torch.cuda.synchronize()
"""
    )
    assert "captur" in result["error"]
    # One that was released, and one that is held for ever; or, as with torch 2.15, it learns of the end.
    assert (result["given"], result["told"]) in ((0, [0, 1]), (128 * MIB, []))


def test_memory_of_a_users_own_allocator_is_left_to_pytorch() -> None:
    freed, runtime = [], cuda_runtime()

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    def allocate(size, device, stream):
        pointer = ctypes.c_void_p()
        assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
        return pointer.value

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
    def free(pointer, size, device, stream):
        freed.append(pointer)
        runtime.cudaFree(ctypes.c_void_p(pointer))

    allocator = torch._C._cuda_customAllocator(*(ctypes.cast(f, ctypes.c_void_p).value for f in (allocate, free)))
    pool = torch.cuda.MemPool(allocator)
    with torch.cuda.use_mem_pool(pool):
        tensor = empty(30 * MIB)
    del pool, tensor
    miss()
    assert not freed
    torch.cuda.empty_cache()
    assert len(freed) == 1


# --- The clock stands still from here on.


@simulated_gpu
def test_replays_that_were_under_way_end_first() -> None:
    """CUDAGraph.reset() does not wait for them, and nor does whoever gives the memory back."""
    simulation = Simulation()
    now = 10**13
    simulation.set_clock(now)
    before = held()
    with simulation.nothing_unordered():
        graph, result = capture()
        torch.cuda.synchronize()
        graph.replay()
        simulation.keep_busy(torch.cuda.current_stream(), now + 10**12)
        del result
        graph.reset()
        miss()
        assert held() == before + 64 * MIB
        simulation.set_clock(now + 2 * 10**12)
        miss()
        assert held() == before


@simulated_gpu
def test_a_program_that_does_nothing_but_hits_gives_it_back_with_idle_memory() -> None:
    simulation = Simulation()
    now = 2 * 10**13
    simulation.set_clock(now)
    before = held()
    graph, result = capture()
    graph.replay()
    simulation.keep_busy(torch.cuda.current_stream(), now + 10**12)
    del result
    graph.reset()
    assert held() == before + 64 * MIB
    simulation.set_clock(now + 2 * 10**12)
    _native.load().release_idle()
    assert held() == before


@simulated_gpu
def test_nobody_waits_for_work_of_a_stream_that_the_allocator_never_saw() -> None:
    """A collective may wait for another process, which may wait for this one."""
    simulation = Simulation()
    now = 3 * 10**13
    simulation.set_clock(now)
    before = held()
    values, stream = torch.zeros(MIB, device="cuda"), torch.cuda.Stream()
    graph, result = capture()
    del result
    with torch.cuda.stream(stream):
        values.add_(1)
    simulation.keep_busy(stream, now + 10**12)
    graph.reset()
    miss()
    assert held() == before + 64 * MIB
    simulation.set_clock(now + 2 * 10**12)
    miss()
    assert held() == before
