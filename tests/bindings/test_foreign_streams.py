"""Streams that are not PyTorch's own: made and destroyed by the program, of a green context, of another GPU."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Iterator

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, Simulation, empty, is_mapped, is_ours, simulated_gpu

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is only one GPU")

SECOND = 10**9
NON_BLOCKING = 1
_moments = itertools.count(10**12, SECOND)


def cuda(function: str, *arguments: object) -> None:
    status = getattr(ctypes.CDLL(None), function)(*arguments)
    assert status == 0, f"{function}: {status}"


@contextlib.contextmanager
def external_stream() -> Iterator[torch.cuda.ExternalStream]:
    """A stream of the program's own, destroyed at the end."""
    handle = ctypes.c_void_p()
    cuda("cudaStreamCreateWithFlags", ctypes.byref(handle), NON_BLOCKING)
    yield torch.cuda.ExternalStream(handle.value)
    torch.cuda.synchronize()
    cuda("cudaStreamDestroy", handle)


@pytest.fixture(autouse=True)
def no_failed_call():
    """Whatever is done to streams, the driver fails no call of ours."""
    before = [frugal_alloc.memory_stats(gpu)["driver_failures"] for gpu in (0, 1)]
    yield
    assert [frugal_alloc.memory_stats(gpu)["driver_failures"] for gpu in (0, 1)] == before


def use_everything() -> None:
    """Asks for more than is free on any stream, gives it all back, and asks again."""
    torch.cuda.empty_cache()
    held = [empty((32 + extra) * MIB) for extra in range(8)]
    assert all(is_ours(tensor) for tensor in held)
    del held
    torch.cuda.empty_cache()
    assert is_ours(empty(300 * MIB))


@pytest.mark.parametrize("is_freed_before", [True, False])
def test_stream_destroyed_before_or_after_its_tensors_are_freed_stops_nothing(is_freed_before):
    with external_stream() as stream, torch.cuda.stream(stream):
        tensors = [empty(64 * MIB).zero_(), empty(MIB // 2)]
        if is_freed_before:
            tensors.clear()
    tensors.clear()
    use_everything()


def test_memory_of_a_destroyed_stream_is_given_back():
    torch.cuda.empty_cache()
    before = frugal_alloc.memory_stats()["reserved_bytes"]
    with external_stream() as stream, torch.cuda.stream(stream):
        empty(64 * MIB).zero_()
    torch.cuda.empty_cache()
    assert frugal_alloc.memory_stats()["reserved_bytes"] <= before + 2 * MIB


def test_tensor_of_a_destroyed_stream_is_shared():
    with external_stream() as stream, torch.cuda.stream(stream):
        tensor = torch.arange(3 * MIB, dtype=torch.int32).to("cuda")
    tensor.untyped_storage()._share_cuda_()
    assert not is_mapped(tensor)
    assert torch.equal(tensor.cpu(), torch.arange(3 * MIB, dtype=torch.int32))


def freed_while_busy(simulation: Simulation) -> int:
    """The address of 10 MiB that the current stream still uses for a second."""
    torch.cuda.empty_cache()
    tensor = empty(10 * MIB)
    simulation.keep_busy(torch.cuda.current_stream(), next(_moments) + SECOND)
    return tensor.data_ptr()


def addresses_had() -> set[int]:
    """Where three tensors of 10 MiB lie, all at once."""
    held = [empty(10 * MIB) for _ in range(3)]
    return {tensor.data_ptr() for tensor in held}


@simulated_gpu
def test_memory_of_a_destroyed_stream_is_not_reused_on_the_next_with_its_handle_before_its_work_is_done():
    simulation = clock()
    first, second = ctypes.c_void_p(), ctypes.c_void_p()
    cuda("cudaStreamCreateWithFlags", ctypes.byref(first), NON_BLOCKING)
    with torch.cuda.stream(torch.cuda.ExternalStream(first.value)):
        address = freed_while_busy(simulation)
    cuda("cudaStreamDestroy", first)
    cuda("cudaStreamCreateWithFlags", ctypes.byref(second), NON_BLOCKING)
    assert second.value == first.value, "a driver uses handles again"
    with torch.cuda.stream(torch.cuda.ExternalStream(second.value)):
        assert address not in addresses_had()
    torch.cuda.synchronize()
    cuda("cudaStreamDestroy", second)


def test_stream_of_pytorchs_pool_is_known_whichever_stream_is_current():
    stream = torch.cuda.Stream()
    pointer = torch.cuda.caching_allocator_alloc(12 * MIB, stream=stream)
    torch.cuda.caching_allocator_delete(pointer)
    with torch.cuda.stream(stream):
        assert empty(12 * MIB).data_ptr() == pointer


# --- Green contexts


@pytest.fixture
def green():
    green_contexts = pytest.importorskip("torch.cuda.green_contexts")
    try:
        context = green_contexts.GreenContext.create(num_sms=16, device_id=0)
    except RuntimeError as error:
        pytest.skip(str(error))
    yield context
    torch.cuda.synchronize()


@pytest.fixture
def green_handle(green) -> ctypes.c_void_p:
    """The green context as the driver knows it."""
    handle = ctypes.c_void_p()
    green.set_context()
    cuda("cuCtxGetCurrent", ctypes.byref(handle))
    green.pop_context()
    return handle


@contextlib.contextmanager
def inside(green_handle: ctypes.c_void_p) -> Iterator[None]:
    """With the green context current. Neither side waits for the other, as set_context() and pop_context() do."""
    cuda("cuCtxPushCurrent_v2", green_handle)
    yield
    cuda("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def clock() -> Simulation:
    """The simulation with its time standing still, and nothing outstanding."""
    simulation = Simulation()
    simulation.set_clock(next(_moments))
    torch.cuda.synchronize()
    return simulation


@simulated_gpu
@pytest.mark.parametrize("is_freed_inside", [True, False])
def test_memory_is_not_reused_across_a_green_contexts_border_before_its_work_is_done(green_handle, is_freed_inside):
    simulation = clock()
    borders = [inside(green_handle), contextlib.nullcontext()]
    first, second = borders if is_freed_inside else reversed(borders)
    with first:
        address = freed_while_busy(simulation)
    with second:
        assert address not in addresses_had()


def test_stream_of_a_green_context_is_forgotten_with_it(green):
    with torch.cuda.stream(green.Stream()):
        tensor = empty(40 * MIB).zero_()
    del tensor
    torch.cuda.synchronize()
    del green
    use_everything()


# --- Streams of another GPU


@simulated_gpu
@pytest.mark.parametrize("kind", ["side", "default"])
def test_memory_that_another_gpus_stream_uses_is_not_reused_before_it_has_passed(kind):
    simulation = clock()
    with torch.cuda.device(1):
        torch.cuda.synchronize()
        stream = torch.cuda.Stream() if kind == "side" else torch.cuda.default_stream()
        until = next(_moments) + SECOND
        simulation.keep_busy(stream, until)
    tensor = empty(10 * MIB, "cuda:0")
    address = tensor.data_ptr()
    tensor.record_stream(stream)
    del tensor
    held = [empty(10 * MIB) for _ in range(3)]
    assert address not in {tensor.data_ptr() for tensor in held}
    simulation.set_clock(until)
    held += [empty(10 * MIB) for _ in range(3)]
    assert address in {tensor.data_ptr() for tensor in held}
    next(_moments)


def test_own_default_stream_is_no_other_although_another_gpu_is_current():
    tensor = empty(12 * MIB, "cuda:0")
    address = tensor.data_ptr()
    with torch.cuda.device(1):
        tensor.record_stream(torch.cuda.default_stream(0))
        del tensor
    assert empty(12 * MIB, "cuda:0").data_ptr() == address
