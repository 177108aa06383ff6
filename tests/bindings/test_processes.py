"""Other processes: children, exports, and the end of a program."""

from binding_helpers import run_python


def test_sharing_mapped_memory_is_refused_with_a_way_out():
    result = run_python(
        """
import torch, frugal_alloc
frugal_alloc.enable()
tensor = torch.empty(1 << 20, device="cuda")
try:
    tensor.untyped_storage()._share_cuda_()
except RuntimeError as error:
    report(error=str(error))
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    shared = torch.empty(1 << 20, device="cuda")
report(handle=len(shared.untyped_storage()._share_cuda_()[1]))
del tensor, shared
"""
    )
    assert "use_mem_pool" in result["error"]
    assert "frugal_alloc.disable()" in result["error"]
    assert result["handle"] == 66


def test_program_ends_well_with_live_tensors():
    result = run_python(
        """
import torch, frugal_alloc
frugal_alloc.enable()
held = [torch.empty(size, device="cuda") for size in (10, 1_000_000)]
stream = torch.cuda.Stream()
held[1].record_stream(stream)
cycle = [held]
cycle.append(cycle)
report(done=True)
"""
    )
    assert (result["done"], result["status"], result["stderr"]) == (True, 0, "")


def test_child_by_fork_that_does_not_use_cuda_works():
    result = run_python(
        """
import multiprocessing, torch, frugal_alloc
frugal_alloc.enable()
torch.empty(1000, device="cuda")
with multiprocessing.get_context("fork").Pool(1) as pool:
    report(value=pool.apply(sum, ([1, 2, 3],)))
"""
    )
    assert (result["value"], result["status"]) == (6, 0)


def test_child_by_spawn_enables_for_itself():
    result = run_python(
        '''
import subprocess, sys, torch, frugal_alloc
frugal_alloc.enable()
code = """
import torch, frugal_alloc
frugal_alloc.enable()
print(frugal_alloc._native.load().owns(torch.empty(9, device='cuda').data_ptr()))
"""
report(child=subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip())
'''
    )
    assert result["child"] == "True"
