"""Memory that stays where it is, for those who registered it: keep_in_place and remap:off."""

from __future__ import annotations

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, empty, run_python, run_well
from frugal_alloc import FrugalAllocError
from frugal_alloc._switch import in_place

# Two pieces of 64 MiB with a tensor between them, in a process that may hold no more: 100 MiB can be had only of both.
TWO_PIECES = """
import torch, frugal_alloc
from frugal_alloc import _native
MIB = 1 << 20
frugal_alloc.enable(memory_limit=132 * MIB)
first, between, last = (torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (64, 4, 64))

def allocates(size):
    try:
        return torch.empty(size * MIB, dtype=torch.uint8, device="cuda") is not None
    except torch.OutOfMemoryError:
        return False
"""


def test_kept_memory_stays_after_its_tensor_is_freed_until_it_is_let_go():
    result = run_well(
        TWO_PIECES
        + """
kept = frugal_alloc.keep_in_place(first)
assert (kept.address, kept.size) == (first.data_ptr(), first.nbytes)
address = first.data_ptr()
del first, last
torch.cuda.empty_cache()
report(kept=allocates(100), again=torch.empty(64 * MIB, dtype=torch.uint8, device="cuda").data_ptr() == address)
kept.release()
report(let_go=allocates(100))
"""
    )
    assert (result["kept"], result["again"], result["let_go"]) == (False, True, True)


def test_nothing_is_joined_where_nothing_may_move():
    result = run_python(
        TWO_PIECES
        + """
_native.load().enable("remap:off")
del first, last
allocates(100)
report(stitches=frugal_alloc.memory_stats()["stitches"])
_native.load().enable("remap:on")
report(served=allocates(100))
"""
    )
    assert (result["stitches"], result["served"]) == (0, True), result["stderr"]


@pytest.mark.parametrize(("remap", "shown"), [("on", False), ("off", True)])
def test_snapshots_show_memory_to_nccls_registration_only_if_it_stays(remap, shown):
    result = run_python(
        """
import os, torch, frugal_alloc
frugal_alloc.enable()
report(asked=os.environ["TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"])
os.environ["TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"] = "1"  # as where it was read before
tensor = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
addresses = [(s["address"], s["address"] + s["total_size"]) for s in torch.cuda.memory_snapshot()]
report(shown=any(first <= tensor.data_ptr() < end for first, end in addresses))
""",
        FRUGAL_ALLOC_CONF=f"remap:{remap}",
        TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK="1",
    )
    assert result["shown"] == shown, result["stderr"]
    assert result["asked"] == ("1" if shown else "0")
    assert ("remap:off" in result["stderr"]) == (not shown)


def test_range_is_from_the_first_byte_to_the_last():
    tensor = empty(4 * MIB)
    square = tensor.view(torch.float32).view(1024, 1024)
    for view, first, size in (
        (square.t(), 0, 4 * MIB),
        (square[2:4], 8192, 8192),
        (square[:, 5], 20, 1023 * 4096 + 4),
        (square.expand(3, 1024, 1024), 0, 4 * MIB),
    ):
        with frugal_alloc.keep_in_place(view) as kept:
            assert (kept.address, kept.size) == (tensor.data_ptr() + first, size)
    with frugal_alloc.keep_in_place(square[:0]) as kept:
        assert kept.size == 0


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (None, "NoneType is not a tensor"),
        (3, "int is not a tensor"),
        (torch.empty(3), "this tensor is cpu"),
        (torch.empty(3, device="meta"), "this tensor is meta"),
    ],
)
def test_what_is_no_tensor_on_a_gpu_is_refused(what, why):
    with pytest.raises(FrugalAllocError, match=why):
        frugal_alloc.keep_in_place(what)


def test_sparse_tensors_are_refused():
    with pytest.raises(FrugalAllocError, match="sparse"):
        in_place.keep(torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=torch.int64), [1.0], (2,), device="cuda"))
