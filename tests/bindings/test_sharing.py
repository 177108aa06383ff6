"""A tensor that is shared with another process moves to a segment of cudaMalloc first. The other process is in
test_processes.py; here is what becomes of the tensor."""

import contextlib
import threading

import frugal_alloc
import pytest
import torch
from binding_helpers import (
    GIB,
    MIB,
    Simulation,
    collect,
    empty,
    is_mapped,
    is_ours,
    natively,
    pooled,
    room,
    run_well,
    segment_of,
    simulated_gpu,
)
from frugal_alloc import _native


@contextlib.contextmanager
def shared(tensor: torch.Tensor):
    """Shares the tensor, and lets go of it at the end as the process that received it would."""
    handle = tensor.untyped_storage()._share_cuda_()
    try:
        yield handle
    finally:
        torch.UntypedStorage._release_ipc_counter(handle[4], handle[5], device=handle[0])


def numbers(count: int) -> torch.Tensor:
    """0, 1, 2, … as 4-byte numbers on the GPU."""
    return torch.arange(count, dtype=torch.int32).cuda()


def test_shared_tensor_moves_once():
    tensor = numbers(1000)
    addresses = [tensor.data_ptr()]
    for _ in range(3):
        with shared(tensor):
            addresses.append(tensor.data_ptr())
    assert addresses[0] != addresses[1]
    assert addresses[1:] == [addresses[1]] * 3
    assert not is_mapped(tensor)


def test_views_follow_their_storage():
    tensor = numbers(1000)
    view, parameter = tensor[100:200], torch.nn.Parameter(tensor.view(torch.float32), requires_grad=False)
    with shared(view):
        assert view.data_ptr() == tensor.data_ptr() + 400
        assert parameter.data_ptr() == tensor.data_ptr()
        assert torch.equal(view.cpu(), torch.arange(100, 200, dtype=torch.int32))


def test_moved_bytes_are_counted_once():
    collect()
    before, ours = torch.cuda.memory_allocated(), frugal_alloc.memory_stats()["allocated_bytes"]
    tensor = empty(6 * MIB)
    with shared(tensor):
        assert torch.cuda.memory_allocated() == before + 6 * MIB
        assert frugal_alloc.memory_stats()["allocated_bytes"] == ours + 6 * MIB
    del tensor
    torch.cuda.ipc_collect()
    assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize("source", ["disabled", "pool", "cuda_malloc"])
def test_memory_that_others_can_open_stays_where_it_is(source):
    if source == "disabled":
        with natively():
            tensor = empty(6 * MIB)
    elif source == "cuda_malloc":
        with frugal_alloc.cuda_malloc():
            tensor = empty(6 * MIB)
    else:
        tensor = pooled(torch.cuda.MemPool(no_split=True), 6 * MIB)
    address = tensor.data_ptr()
    with shared(tensor):
        assert tensor.data_ptr() == address


def test_our_memory_moves_after_disabling_too():
    tensor = numbers(1000)
    frugal_alloc.disable()
    with shared(tensor):
        assert not is_ours(tensor)
        assert torch.equal(tensor.cpu(), torch.arange(1000, dtype=torch.int32))


def test_without_room_for_both_nothing_changes():
    with room(3 * GIB):
        tensor = empty(2 * GIB)
        tensor[:MIB].fill_(7)
        address = tensor.data_ptr()
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            tensor.untyped_storage()._share_cuda_()
    assert tensor.data_ptr() == address
    assert is_ours(tensor)
    assert int(tensor[:MIB].cpu().sum()) == 7 * MIB


def test_memory_that_belongs_to_another_object_is_refused():
    tensor = numbers(1000)
    alias = torch.from_dlpack(tensor)
    with pytest.raises(RuntimeError, match=r"DLPack.*clone\(\)"):
        alias.untyped_storage()._share_cuda_()
    assert alias.data_ptr() == tensor.data_ptr()


def test_lazy_copy_is_shared_as_a_copy_of_its_own():
    tensor = numbers(1000)
    copy = torch._lazy_clone(tensor)
    with shared(copy):
        assert not is_mapped(copy)
        assert is_mapped(tensor)
        assert torch.equal(copy.cpu(), tensor.cpu())


def test_new_memory_belongs_to_the_stream_of_the_old():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor = empty(6 * MIB)
    with shared(tensor):
        assert segment_of(tensor.data_ptr())["stream"] == stream.cuda_stream


@simulated_gpu
def test_recorded_streams_go_with_the_tensor():
    simulation = Simulation()
    simulation.set_clock(10**12)
    other = torch.cuda.Stream()
    tensor = empty(6 * MIB)
    tensor.record_stream(other)
    with shared(tensor):
        simulation.keep_busy(other, 2 * 10**12)
    before = torch.cuda.memory_stats()
    del tensor
    torch.cuda.ipc_collect()
    after = torch.cuda.memory_stats()
    assert after["allocated_bytes.all.current"] == before["allocated_bytes.all.current"] - 6 * MIB
    assert after["active_bytes.all.current"] == before["active_bytes.all.current"]
    simulation.set_clock(2 * 10**12)


@simulated_gpu
def test_work_of_any_stream_is_over_before_the_move():
    simulation = Simulation()
    simulation.set_clock(3 * 10**12)
    other = torch.cuda.Stream()
    tensor = empty(6 * MIB)
    simulation.keep_busy(other, 4 * 10**12)
    assert not other.query()
    with shared(tensor):
        assert other.query()


@simulated_gpu
def test_who_reads_a_shared_tensor_need_not_wait_for_its_move():
    tensor = numbers(1000)
    other = torch.cuda.Stream()
    with Simulation().nothing_unordered(), shared(tensor), torch.cuda.stream(other):
        tensor.sum()
        tensor.record_stream(other)


def test_sharing_in_a_capture_is_refused_and_leaves_the_capture_alone():
    tensor = numbers(1000)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(RuntimeError, match="share it before the capture"):
            tensor.untyped_storage()._share_cuda_()
        tensor.add_(1)
    assert is_ours(tensor)
    graph.replay()


def moved_by_another_thread_while_this_one_captures(tensor: torch.Tensor) -> torch.cuda.CUDAGraph:
    library = _native.load()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = empty(MIB)
        thread = threading.Thread(target=lambda: library.make_shareable(tensor.untyped_storage()._cdata))
        thread.start()
        thread.join()
        held.fill_(1)
    return graph


@simulated_gpu
def test_move_while_another_thread_captures_comes_after_the_work_of_each_stream():
    tensor = numbers(1000)
    with Simulation().nothing_unordered():
        for half in (tensor[:500], tensor[500:]):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                half.add_(1)
            tensor.record_stream(stream)
        moved_by_another_thread_while_this_one_captures(tensor)
    assert not is_mapped(tensor)


def test_handle_of_mapped_memory_is_refused_with_a_way_out():
    tensor = numbers(1000)
    with pytest.raises(RuntimeError, match=r"frugal_alloc\.enable\(\)"):
        torch._C.StorageBase._share_cuda_(tensor.untyped_storage())
    assert is_ours(tensor)


@simulated_gpu
def test_other_threads_of_python_run_while_work_in_flight_is_waited_for():
    result = run_well(
        """
import ctypes, sys, threading, time, torch, frugal_alloc
frugal_alloc.enable()
gpu = ctypes.CDLL(None)
gpu.frugal_sim_set_stream_busy_until.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
tensor = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
collective = torch.cuda.Stream()
begun, ran = threading.Event(), []
other = threading.Thread(target=lambda: (begun.wait(), ran.append(True)))
other.start()
# From here on the other thread runs only while this one has let go of the interpreter's lock.
sys.setswitchinterval(1000)
gpu.frugal_sim_set_stream_busy_until(collective.cuda_stream, time.monotonic_ns() + 300_000_000)
begun.set()
handle = tensor.untyped_storage()._share_cuda_()
(mapped,) = [
    s["is_expandable"] for s in torch.cuda.memory_snapshot()
    if 0 <= tensor.data_ptr() - s["address"] < s["total_size"]
]
report(ran=bool(ran), passed=collective.query(), mapped=mapped)
other.join()
torch.UntypedStorage._release_ipc_counter(handle[4], handle[5], device=handle[0])
""",
        # Work takes real time.
        FRUGAL_SIM_LATE="0",
    )
    assert (result["ran"], result["passed"], result["mapped"]) == (True, True, False)
