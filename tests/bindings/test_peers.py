"""Several GPUs: memory of each, copies between them, peers."""

import itertools
import os

import frugal_alloc
import pytest
import torch
from binding_helpers import (
    GIB,
    MIB,
    Simulation,
    empty,
    is_mapped,
    is_ours,
    run_python,
    run_well,
    simulated_gpu,
    use_on_several_streams,
)

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is only one GPU")


@pytest.mark.parametrize("gpu", [0, 1])
def test_each_gpu_counts_its_own_memory(gpu):
    other = 1 - gpu
    before = torch.cuda.memory_allocated(gpu), torch.cuda.memory_allocated(other)
    ours_before = [frugal_alloc.memory_stats(one)["allocated_bytes"] for one in (gpu, other)]
    tensor = empty(3 * MIB, f"cuda:{gpu}")
    assert is_ours(tensor)
    assert torch.cuda.memory_allocated(gpu) == before[0] + 3 * MIB
    assert torch.cuda.memory_allocated(other) == before[1]
    ours = [frugal_alloc.memory_stats(one)["allocated_bytes"] for one in (gpu, other)]
    assert ours == [ours_before[0] + 3 * MIB, ours_before[1]]


@simulated_gpu
@pytest.mark.parametrize("gpu", [0, 1])
def test_no_byte_of_either_gpu_is_reused_too_early(gpu, moments=itertools.count(10**12, 10**9)):  # noqa: B008
    simulation = Simulation()
    with torch.cuda.device(gpu), simulation.nothing_unordered():
        use_on_several_streams(simulation, lambda: next(moments))


def test_memory_mapped_after_a_copy_is_reached_by_the_peer():
    empty(MIB, "cuda:0").to("cuda:1")
    for _ in range(3):
        torch.cuda.empty_cache()
        assert empty(100 * MIB, "cuda:0").to("cuda:1").numel() == 100 * MIB


def test_out_of_memory_names_the_gpu():
    with pytest.raises(torch.OutOfMemoryError, match="GPU 1 has a total capacity"):
        empty(1 << 44, "cuda:1")


def test_fraction_holds_for_its_gpu_alone():
    torch.cuda.set_per_process_memory_fraction(GIB / torch.cuda.mem_get_info(1)[1], 1)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            empty(2 * GIB, "cuda:1")
        assert is_ours(empty(2 * GIB, "cuda:0"))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 1)


@simulated_gpu
def test_a_limit_that_one_gpu_cannot_have_is_set_on_none():
    for gpu in (0, 1):
        empty(MIB, f"cuda:{gpu}")
    # Each GPU is asked twice.
    with (
        Simulation().faults("memory_info@2=invalid_value,memory_info@3=invalid_value"),
        pytest.raises(frugal_alloc.FrugalAllocError, match="could not limit memory"),
    ):
        frugal_alloc.enable(memory_limit="1GiB")
    assert [frugal_alloc.memory_stats(gpu)["limit_bytes"] for gpu in (0, 1)] == [0, 0]


@simulated_gpu
def test_idle_memory_of_one_gpu_goes_back_although_anothers_does_not():
    torch.cuda.empty_cache()  # what is left is one free block for each GPU
    for gpu in (0, 1):
        empty(100 * MIB, f"cuda:{gpu}")
        torch.cuda.synchronize(gpu)
    library = frugal_alloc._native.load()
    library.release_idle()  # begins the interval in which both are idle
    before = [torch.cuda.memory_reserved(gpu) for gpu in (0, 1)]
    # What fails is tried twice.
    with (
        Simulation().faults("unmap@1=unmap_failed,unmap@2=unmap_failed"),
        pytest.raises(frugal_alloc.FrugalAllocError),
    ):
        library.release_idle()
    kept = [torch.cuda.memory_reserved(gpu) == before[gpu] for gpu in (0, 1)]
    assert sorted(kept) == [False, True]


def test_gpu_that_is_opened_later_is_as_was_said_before():
    result = run_python(
        """
import torch, frugal_alloc
from frugal_alloc import _native
frugal_alloc.enable()
torch.empty(1 << 20, device="cuda:0")
torch.cuda.set_per_process_memory_fraction((1 << 30) / torch.cuda.mem_get_info(1)[1], 1)
torch.cuda.memory._record_memory_history()
kept = torch.empty(3 << 20, dtype=torch.uint8, device="cuda:1")
try:
    torch.empty(2 << 30, dtype=torch.uint8, device="cuda:1")
except torch.OutOfMemoryError:
    report(limited=True)
traced = torch.cuda.memory._snapshot()["device_traces"][1]
report(
    traced=[entry["action"] for entry in traced if entry.get("addr") == kept.data_ptr()],
    bytes_by_site=[usage.live_bytes for usage in _native.load().site_usages() if usage.gpu == 1],
)
"""
    )
    assert result.get("limited"), result["stderr"]
    assert "alloc" in result["traced"]
    assert result["bytes_by_site"] == [3 * MIB]


def test_peers_of_before_the_swap_reach_memory_of_after_it():
    result = run_python(
        """
import torch, frugal_alloc
for source, target in ((0, 1), (1, 0)):
    torch.empty(1 << 20, device=f"cuda:{source}").to(f"cuda:{target}")
frugal_alloc.enable()
copied = torch.empty(50 << 20, dtype=torch.uint8, device="cuda:0").to("cuda:1").to("cuda:0")
# A copy that is not in one piece is a kernel of one GPU that reads the other's memory.
strided = torch.empty(1 << 20, device="cuda:1")[::2].to("cuda:0")
torch.cuda.synchronize()
report(ours=all(frugal_alloc._native.load().owns(t.data_ptr()) for t in (copied, strided)))
"""
    )
    assert result["ours"], result["stderr"]


SEEN = """
import torch, frugal_alloc
frugal_alloc.enable()
owns = frugal_alloc._native.load().owns
tensors = [torch.empty(3 << 20, dtype=torch.uint8, device=f"cuda:{gpu}") for gpu in range(torch.cuda.device_count())]
report(
    gpus=len(tensors),
    uuids=[str(torch.cuda.get_device_properties(gpu).uuid) for gpu in range(len(tensors))],
    ours=all(owns(tensor.data_ptr()) for tensor in tensors),
    allocated=[frugal_alloc.memory_stats(gpu)["allocated_bytes"] for gpu in range(len(tensors))],
    copied=owns(tensors[0].to(f"cuda:{len(tensors) - 1}").data_ptr()),
)
"""


@pytest.mark.skipif(os.environ.get("FRUGAL_TEST_MOMENT") == "mid-run", reason="starts processes of its own")
def test_gpus_are_numbered_as_cuda_visible_devices_says():
    every = run_python(SEEN, CUDA_VISIBLE_DEVICES=None)
    assert every["gpus"] == 2
    names = {"1,0": [1, 0], f"GPU-{every['uuids'][1]}": [1]}
    for visible, gpus in names.items():
        seen = run_python(SEEN, CUDA_VISIBLE_DEVICES=visible)
        assert seen["uuids"] == [every["uuids"][gpu] for gpu in gpus], seen["stderr"]
        assert seen["ours"]
        assert seen["copied"]
        assert seen["allocated"] == [3 << 20] * len(gpus)


def test_shared_tensor_stays_on_its_gpu():
    tensor = torch.arange(1000, dtype=torch.int32).to("cuda:1")
    with torch.cuda.device(0):
        tensor.untyped_storage()._share_cuda_()
    assert not is_mapped(tensor)
    assert tensor.device.index == 1
    assert torch.equal(tensor.cpu(), torch.arange(1000, dtype=torch.int32))


ACCESS = """
import ctypes, torch, frugal_alloc

class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]

def reaches(gpu, tensor):
    flags = ctypes.c_ulonglong()
    address = ctypes.c_uint64(tensor.data_ptr())
    assert ctypes.CDLL("libcuda.so.1").cuMemGetAccess(ctypes.byref(flags), ctypes.byref(Location(1, gpu)), address) == 0
    return flags.value == 3

for gpu in (0, 1):
    torch.zeros(1, device=f"cuda:{gpu}")
"""


@simulated_gpu
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_peers_are_let_in_where_pytorch_has_enabled_them_and_nowhere_else(used, cached):
    result = run_well(
        ACCESS
        + f"""
if {used}:
    torch.empty(1 << 20, device="cuda:1").to("cuda:0")
if not {cached}:
    torch.cuda.empty_cache()
frugal_alloc.enable()
tensors = [torch.empty(1 << 20, device=f"cuda:{{gpu}}") for gpu in (0, 1)]
report(reached=[reaches(1 - gpu, tensor) for gpu, tensor in enumerate(tensors)])
"""
    )
    assert result["reached"] == [used, False]


@simulated_gpu
def test_enabling_succeeds_after_an_error_of_earlier_work_that_was_pending():
    result = run_well(
        ACCESS
        + """
simulation = ctypes.CDLL(None)
assert simulation.frugal_sim_set_faults(b"event_record@1=late_unknown") == 0
torch.cuda.Event().record(torch.cuda.Stream())
tries = []
for _ in range(3):
    try:
        frugal_alloc.enable()
        tries.append("enabled")
    except frugal_alloc.FrugalAllocError as error:
        tries.append(str(error))
tensors = [torch.empty(1 << 20, device=f"cuda:{gpu}") for gpu in (0, 1)]
report(tries=tries, ours=[frugal_alloc._native.load().owns(tensor.data_ptr()) for tensor in tensors])
"""
    )
    assert result["tries"][1:] == ["enabled", "enabled"]
    assert result["ours"] == [True, True]
