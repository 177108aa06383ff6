"""PyTorch's green contexts on the simulated GPU, with native's allocator: runs on the simulated GPU (conftest.py)."""

from __future__ import annotations

import ctypes

import pytest
import torch
from torch.cuda.green_contexts import GreenContext

LONG = 1_000_000_000  # nanoseconds of simulated time, which stands still


@pytest.fixture(autouse=True)
def _still_clock():
    torch.cuda.init()
    library = ctypes.CDLL(None)
    library.frugal_sim_set_clock.argtypes = [ctypes.c_uint64]
    library.frugal_sim_set_clock(1)
    torch.cuda.synchronize()


@pytest.fixture
def green():
    return GreenContext.create(16, 0)


def is_busy(stream: torch.cuda.Stream) -> bool:
    return not stream.query()


def current_context() -> int:
    context = ctypes.c_void_p()
    assert ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value or 0


def test_handle_0_means_the_null_stream_of_the_current_context(green):
    primary = torch.cuda.default_stream()
    green.set_context()
    torch.cuda._sleep(LONG)
    assert is_busy(torch.cuda.default_stream())
    ctypes.CDLL("libcuda.so.1").cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    assert not is_busy(primary)
    torch.cuda.synchronize()  # of the primary context: its green ones are waited for


def test_popping_the_context_has_the_stream_before_it_wait(green):
    before = current_context()
    green.set_context()
    assert current_context() != before
    torch.cuda._sleep(LONG)
    green.pop_context()
    assert current_context() == before
    assert is_busy(torch.cuda.current_stream())
    torch.cuda.synchronize()
    assert not is_busy(torch.cuda.current_stream())


def test_values_are_kept_across_contexts(green):
    before = torch.full((1000,), 3.0, device="cuda")
    green.set_context()
    inside = torch.full((1000,), 4.0, device="cuda")
    assert before.cpu()[0] == 3
    green.pop_context()
    assert inside.cpu()[0] == 4


def test_stream_of_a_green_context_is_used_as_any_other(green):
    stream = green.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        filled = torch.ones(10, device="cuda")
        event = torch.cuda.Event()
        event.record()
    assert not event.query()
    torch.cuda.current_stream().wait_stream(stream)
    assert is_busy(torch.cuda.current_stream())
    torch.cuda.synchronize()
    assert filled.cpu()[0] == 1


def test_more_multiprocessors_than_the_gpu_has_are_refused():
    with pytest.raises(RuntimeError):
        GreenContext.create(1000, 0)


def test_thread_has_no_context_before_it_uses_cuda():
    import threading

    torch.zeros(1, device="cuda")
    found = []

    def look():
        found.append(current_context())
        torch.zeros(1, device="cuda")
        found.append(current_context())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [0, current_context()]
