"""Memory used by several streams: handed on only when all of them have passed."""

import contextlib
from collections.abc import Iterator

import pytest
import torch
from binding_helpers import MIB, Simulation, empty, segment_of, simulated_gpu, use_on_several_streams

SECOND = 10**9


def now_plus(state={"now": 10**12}) -> int:  # noqa: B006
    """A later moment at each call: the simulated clock never goes back."""
    state["now"] += SECOND
    return state["now"]


def freed_in_use_by_another_stream(simulation: Simulation) -> tuple[int, int]:
    """The address of 10 MiB, and the moment at which the other stream has passed."""
    simulation.set_clock(now_plus())
    other = torch.cuda.Stream()
    tensor = empty(10 * MIB)
    until = now_plus()
    with torch.cuda.stream(other):
        empty(512).zero_()
    simulation.keep_busy(other, until)
    tensor.record_stream(other)
    return tensor.data_ptr(), until


@simulated_gpu
def test_block_in_use_by_another_stream_is_not_reused_before_it_has_passed():
    simulation = Simulation()
    address, until = freed_in_use_by_another_stream(simulation)
    assert empty(10 * MIB).data_ptr() != address
    simulation.set_clock(until)
    held = [empty(10 * MIB) for _ in range(3)]
    assert address in {tensor.data_ptr() for tensor in held}


@simulated_gpu
def test_what_awaits_a_stream_is_active_in_its_segment_and_not_allocated():
    address, _ = freed_in_use_by_another_stream(Simulation())
    segment = segment_of(address)
    sizes = {"active_allocated": 0, "active_pending_free": 0, "inactive": 0}
    for block in segment["blocks"]:
        sizes[block["state"]] += block["size"]
    assert sizes["active_pending_free"] >= 10 * MIB
    assert segment["active_size"] == sizes["active_allocated"] + sizes["active_pending_free"]
    assert segment["allocated_size"] == sizes["active_allocated"]


@contextlib.contextmanager
def history() -> Iterator[None]:
    torch.cuda.memory._record_memory_history()
    yield
    torch.cuda.memory._record_memory_history(enabled=None)


@simulated_gpu
@pytest.mark.parametrize("around", [contextlib.nullcontext, history])
def test_no_byte_is_reused_too_early_whether_history_is_recorded_or_not(around):
    simulation = Simulation()
    with around(), simulation.nothing_unordered():
        use_on_several_streams(simulation, now_plus)


@simulated_gpu
def test_block_without_record_stream_is_reused_at_once():
    simulation = Simulation()
    simulation.set_clock(now_plus())
    tensor = empty(11 * MIB)
    address = tensor.data_ptr()
    simulation.keep_busy(torch.cuda.current_stream(), now_plus())
    del tensor
    assert empty(11 * MIB).data_ptr() == address
    simulation.set_clock(now_plus())


def test_record_of_the_own_stream_delays_nothing():
    tensor = empty(12 * MIB)
    address = tensor.data_ptr()
    tensor.record_stream(torch.cuda.current_stream())
    del tensor
    assert empty(12 * MIB).data_ptr() == address


def test_record_stream_on_an_older_tensor_reaches_native(older):
    tensor = older()
    size = tensor.numel()
    stream = torch.cuda.Stream()
    tensor.record_stream(stream)
    before = torch.cuda.memory_allocated()
    del tensor
    torch.cuda.synchronize()
    assert before - torch.cuda.memory_allocated() == size
