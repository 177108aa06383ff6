"""torch.cuda's figures while frugal_alloc serves, and frugal_alloc's own."""

import re

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, collect, empty, natively
from frugal_alloc import FrugalAllocError, memory_stats


def test_swap_leaves_figures_as_they_were(swap):
    before, after = swap
    for name in ("allocated_bytes", "active_bytes", "requested_bytes", "allocation"):
        assert after[f"{name}.all.current"] == before[f"{name}.all.current"]
        assert after[f"{name}.all.peak"] == before[f"{name}.all.peak"]


def test_swap_leaves_names_and_types_as_they_were(swap):
    # Figures by pool have a name for each pool that there is.
    types = [{name: type(stats[name]) for name in stats if "private_pools" not in name} for stats in swap]
    assert types[0] == types[1]


def test_idle_native_memory_is_given_back_at_the_swap(swap):
    before, after = swap
    assert after["reserved_bytes.all.current"] < before["reserved_bytes.all.current"]


def test_peaks_of_different_times_are_not_added():
    collect()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    frugal_alloc.disable()
    empty(100 * MIB)
    frugal_alloc.enable()
    empty(100 * MIB)
    assert torch.cuda.max_memory_allocated() == base + 100 * MIB


def test_own_figures_are_what_we_did():
    before = memory_stats()
    held = empty(3 * MIB + 1)
    after = memory_stats()
    assert after["allocated_bytes"] - before["allocated_bytes"] == 3 * MIB + 512
    assert after["requested_bytes"] - before["requested_bytes"] == 3 * MIB + 1
    assert after["allocations"] - before["allocations"] == 1
    assert after["blocks"] - before["blocks"] == 1
    assert after["reserved_bytes"] >= after["active_bytes"] >= after["allocated_bytes"]
    assert after["virtual_memory"] == 1
    del held
    assert memory_stats()["frees"] == before["frees"] + 1


def test_own_peak_is_reset_whatever_came_before():
    empty(64 * MIB)
    with natively():
        empty(MIB)
    torch.cuda.reset_peak_memory_stats()
    assert memory_stats()["peak_allocated_bytes"] == memory_stats()["allocated_bytes"]


@pytest.mark.parametrize("device", [None, 0, "cuda", "cuda:0", torch.device("cuda", 0)])
def test_own_figures_of_a_device_by_any_of_its_names(device):
    assert memory_stats(device) == memory_stats()


@pytest.mark.parametrize("device", ["cpu", "nonsense", 1.5, torch.device("cpu")])
def test_own_figures_of_no_cuda_device_are_refused(device):
    with pytest.raises(FrugalAllocError, match="is not a CUDA device"):
        memory_stats(device)


def test_own_figures_of_an_unused_device_are_zero():
    assert set(memory_stats(100).values()) == {0}


def test_documented_figures_are_those_reported():
    words = set(re.findall(r"``(\w+)``", memory_stats.__doc__.split("Returns:")[1].split("Raises:")[0]))
    assert {word.replace("CALL", call) for word in words for call in words} >= set(memory_stats())


def test_calls_of_the_driver_are_counted_with_their_time():
    torch.cuda.empty_cache()  # else what is asked for is perhaps held already
    before = memory_stats()
    empty(64 * MIB)
    torch.cuda.empty_cache()
    after = memory_stats()
    for call in ("create", "set_access", "unmap", "release"):
        calls, time = (after[f"driver_{call}_{what}"] - before[f"driver_{call}_{what}"] for what in ("calls", "ns"))
        assert calls > 0, call
        assert time >= 0, call
        assert after[f"driver_{call}_worst_ns"] <= after[f"driver_{call}_ns"], call


def test_emptying_the_cache_gives_idle_memory_back():
    torch.cuda.empty_cache()  # PyTorch's own allocator has nothing idle, then
    held = empty(50 * MIB)
    del held
    collect()
    free, reserved = torch.cuda.mem_get_info()[0], memory_stats()["reserved_bytes"]
    torch.cuda.empty_cache()
    freed = reserved - memory_stats()["reserved_bytes"]
    assert freed >= 50 * MIB
    assert torch.cuda.mem_get_info()[0] == free + freed
    torch.cuda.empty_cache()
    assert memory_stats()["reserved_bytes"] == reserved - freed


def test_emptying_the_cache_counts_as_one_wait_for_all_streams():
    def waits():
        return torch.cuda.memory_stats()["num_sync_all_streams"]

    for tensors in ([], [empty(MIB)], [empty(MIB), empty(30 * MIB)]):
        before = waits()
        tensors.clear()
        torch.cuda.empty_cache()
        assert waits() == before + 1
    torch.cuda.reset_accumulated_memory_stats()
    assert waits() == 0
