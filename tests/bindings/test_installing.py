"""What stands in the way of enabling, and what does not."""

from __future__ import annotations

import pytest
from binding_helpers import run_well, simulated_gpu
from frugal_alloc._common import installation

ENABLING = """
import ctypes, torch, frugal_alloc
native = torch.empty(1 << 20, device="cuda")
del native
simulation = ctypes.CDLL(None)

def is_ours(tensor):
    return frugal_alloc._native.load().owns(tensor.data_ptr())
"""


def test_second_copy_of_the_library_is_refused_in_one_line_and_the_first_goes_on(tmp_path):
    copy = tmp_path / "copy.so"
    copy.write_bytes(installation.find_library("alloc", installation.find_torch()).read_bytes())
    result = run_well(
        ENABLING
        + f"""
frugal_alloc.enable()
second = ctypes.CDLL({str(copy)!r})
second.frugal_last_error.restype = ctypes.c_char_p
report(answer=second.frugal_enable(), said=second.frugal_last_error().decode())
report(ours=is_ours(torch.empty(1 << 20, device="cuda")), enabled=frugal_alloc.is_enabled())
"""
    )
    assert result["answer"] == -1
    assert result["said"].startswith("another copy of frugal_alloc's library is at work") and "\n" not in result["said"]
    assert (result["ours"], result["enabled"]) == (True, True)


@simulated_gpu
@pytest.mark.parametrize(("plan", "told"), [("free@1=unknown", False), ("free@1+=unknown", True)])
def test_enabling_holds_where_idle_memory_cannot_be_given_back(plan, told):
    result = run_well(
        ENABLING
        + f"""
assert simulation.frugal_sim_set_faults({plan.encode()!r}) == 0
for _ in range(2):
    frugal_alloc.enable()
simulation.frugal_sim_set_faults(b"")
report(enabled=frugal_alloc.is_enabled(), ours=is_ours(torch.empty(1 << 20, device="cuda")))
"""
    )
    assert (result["enabled"], result["ours"]) == (True, True)
    assert ("idle memory could not be given back" in result["stderr"]) == told


def test_memory_from_before_caching_was_turned_on_goes_back_the_way_it_came():
    result = run_well(
        ENABLING
        + """
torch.cuda.memory.caching_allocator_enable(False)
frugal_alloc.enable()
uncached = torch.empty(1 << 20, device="cuda")
torch.cuda.memory.caching_allocator_enable(True)
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    pooled = torch.empty(1 << 20, device="cuda")
torch.cuda.memory.caching_allocator_enable(False)
late = torch.empty(1 << 20, device="cuda")
before = torch.cuda.mem_get_info()[0]
del uncached, late
report(given_back=torch.cuda.mem_get_info()[0] - before)
held = torch.cuda.memory_allocated()
del pooled
report(freed=held - torch.cuda.memory_allocated())
torch.cuda.memory.caching_allocator_enable(True)
report(ours=is_ours(torch.empty(1 << 20, device="cuda")))
"""
    )
    assert result["given_back"] >= 2 * (4 << 20)
    assert result["freed"] == 4 << 20
    assert result["ours"]
    assert "could not free" not in result["stderr"]


@simulated_gpu
def test_sanitizer_of_pytorch_finds_no_race_in_a_program_that_orders_its_work_and_one_in_one_that_does_not():
    for waits in (True, False):
        result = run_well(
            ENABLING
            + f"""
import torch.cuda._sanitizer as sanitizer
sanitizer.enable_cuda_sanitizer()
frugal_alloc.enable()
side = torch.cuda.Stream()
try:
    for _ in range(4):
        made = torch.ones(1 << 20, device="cuda")
        if {waits}:
            side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            read = made + 1
        made.record_stream(side)
        del made, read
    report(race=False)
except sanitizer.CUDASanitizerErrors:
    report(race=True)
""",
            FRUGAL_SIM_ORDER="0",
            FRUGAL_SIM_LATE="0",
        )
        assert result["race"] == (not waits)
