"""A GPU without virtual memory management: cudaMalloc segments under the same policy."""

import frugal_alloc
import torch
from binding_helpers import MIB, Simulation, collect, empty, is_ours, simulated_gpu

pytestmark = simulated_gpu


def test_memory_is_ours_and_comes_from_cuda_malloc():
    simulation = Simulation()
    before = simulation.calls("malloc"), simulation.calls("create")
    held = empty(777 * MIB)
    assert is_ours(held)
    assert frugal_alloc.memory_stats()["virtual_memory"] == 0
    assert simulation.calls("malloc") > before[0]
    assert simulation.calls("create") == before[1]


def test_idle_segments_are_given_back():
    held = empty(300 * MIB)
    del held
    collect()
    simulation = Simulation()
    before = simulation.memory_used()
    torch.cuda.empty_cache()
    assert simulation.memory_used() <= before - 300 * MIB


def test_memory_can_be_shared_with_another_process():
    tensor = empty(3 * MIB)
    handle = tensor.untyped_storage()._share_cuda_()
    assert len(handle[1]) == 66  # the form's two bytes, and CUDA's own 64
