"""torch.distributed: gradients and parameters that go through collectives, and what NCCL asks of the allocator.

Collectives are gloo's here, on CUDA tensors; simulated_gpu/tests/test_nccl.py has NCCL's.
"""

import json
from pathlib import Path

import pytest
import torch
from binding_helpers import run_python, run_well

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is only one GPU")

HERE = Path(__file__).parent
HOOK = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"


def train(kind: str, folder: Path, **environment: str) -> list[dict]:
    """What each of two processes saw."""
    run_well(
        f"import sys; sys.path.insert(0, {str(HERE)!r}); import training_pair, torch.multiprocessing\n"
        f"torch.multiprocessing.spawn(training_pair.run, args=({kind!r}, {str(folder)!r}), nprocs=2)",
        **environment,
    )
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_ddp_trains_as_one_process_would(tmp_path):
    for facts in train("ddp", tmp_path, FRUGAL_SIM_VALUES="cpu"):
        assert facts["reduced"] == [3]
        assert facts["difference"] < 1e-6
        assert facts["ours"]


def test_fsdp2_trains_in_our_memory(tmp_path):
    for facts in train("fsdp2", tmp_path):
        assert facts["reduced"] == [3]
        assert facts["sizes"] == [64 * 64 // 2, 64 // 2] * 3
        assert facts["ours"]
        assert not facts["grew"]


NCCL_GROUP = """
import torch, torch.distributed, tempfile
def begin():
    torch.distributed.init_process_group(
        "nccl", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
"""


def test_registration_of_all_memory_is_left_out_with_a_warning():
    result = run_python(
        NCCL_GROUP
        + f"""
import os, warnings, frugal_alloc
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    frugal_alloc.enable()
begin()
report(warned=[str(w.message) for w in warned], left=os.environ[{HOOK!r}], on=frugal_alloc.is_enabled())
torch.distributed.destroy_process_group()
""",
        **{HOOK: "1"},
    )
    assert [HOOK in text and "register_mem_pool" in text for text in result["warned"]] == [True], result["stderr"]
    assert (result["left"], result["on"]) == ("0", True)


def test_a_pool_that_nccl_registers_gets_memory_that_stays_where_it_is():
    result = run_well(
        NCCL_GROUP
        + """
import frugal_alloc
frugal_alloc.enable()
begin()
torch.distributed.all_reduce(torch.ones(4, device="cuda"))
backend = torch.distributed.group.WORLD._get_backend(torch.device("cuda"))
owns = frugal_alloc._native.load().owns
pool = torch.cuda.MemPool()
def pooled():
    with torch.cuda.use_mem_pool(pool):
        return torch.empty(1 << 20, device="cuda")
before = pooled()
backend.register_mem_pool(pool)
after = pooled()
report(ours=[owns(tensor.data_ptr()) for tensor in (before, after)],
       shown=[(s["address"] == after.data_ptr(), s["is_expandable"]) for s in pool.snapshot()])
torch.distributed.destroy_process_group()
"""
    )
    assert result["ours"] == [True, True], result["stderr"]
    assert result["shown"] == [[True, False]], "what was there before may move, so it is not registered"


@pytest.mark.parametrize("order", ["begin(); frugal_alloc.enable()", "frugal_alloc.enable(); switch_on(); begin()"])
def test_nccl_that_registers_every_segment_does_not_find_ours(order):
    result = run_python(
        NCCL_GROUP
        + f"""
import os, frugal_alloc
def switch_on():
    os.environ[{HOOK!r}] = "1"
{order}
tensor = torch.empty(1 << 20, device="cuda")
found = [s for s in torch.cuda.memory_snapshot() if s["address"] <= tensor.data_ptr() < s["address"] + s["total_size"]]
report(ours=frugal_alloc._native.load().owns(tensor.data_ptr()), found=len(found))
torch.distributed.destroy_process_group()
""",
        **{HOOK: "1" if order.startswith("begin") else None},
    )
    assert (result["ours"], result["found"]) == (True, 0), result["stderr"]
    assert f"while {HOOK} is set" in result["stderr"]
