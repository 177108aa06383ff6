"""A GPU without virtual memory management: cudaMalloc segments under the same policy."""

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, Simulation, collect, empty, is_ours, segment_of, simulated_gpu

pytestmark = simulated_gpu


def test_memory_is_ours_and_comes_from_cuda_malloc():
    simulation = Simulation()
    before = simulation.calls("malloc"), simulation.calls("create")
    held = empty(777 * MIB)
    assert is_ours(held)
    assert frugal_alloc.stats()["virtual_memory"] == 0
    assert simulation.calls("malloc") > before[0]
    assert simulation.calls("create") == before[1]


def test_freed_memory_is_used_again():
    simulation = Simulation()
    empty(50 * MIB)
    before = simulation.calls("malloc")
    empty(50 * MIB)
    assert simulation.calls("malloc") == before


def test_segments_are_no_expandable_ones():
    tensor = empty(30 * MIB)
    assert not segment_of(tensor)["is_expandable"]


def test_idle_segments_are_given_back():
    held = empty(300 * MIB)
    del held
    collect()
    simulation = Simulation()
    before = simulation.memory_used()
    torch.cuda.empty_cache()
    assert simulation.memory_used() <= before - 300 * MIB


def test_out_of_memory_is_pytorchs_error_and_the_program_goes_on():
    with pytest.raises(torch.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate"):
        empty(1 << 44)
    assert is_ours(empty(MIB))


def test_memory_can_be_shared_with_another_process():
    tensor = empty(3 * MIB)
    handle = tensor.untyped_storage()._share_cuda_()
    assert len(handle[1]) == 66  # the form's two bytes, and CUDA's own 64
