"""Whose memory a tensor lives in, and that it gets there and back."""

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, empty, is_ours


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(1000, device="cuda"),
        lambda: torch.randn(100, 100, device="cuda"),
        lambda: torch.arange(10).cuda(),
        lambda: torch.nn.Linear(300, 300).cuda().weight,
        lambda: torch.empty_strided((5, 5), (5, 1), device="cuda"),
        lambda: torch._C._dynamo.guards._empty_strided_cuda((5, 5), (5, 1), torch.float32),
        lambda: torch.UntypedStorage(4096, device="cuda"),
        lambda: empty(200 * MIB),
    ],
    ids=["ones", "randn", "copy", "parameter", "strided", "inductor", "storage", "large"],
)
def test_new_memory_is_ours(make):
    assert is_ours(make())


def test_resized_storage_stays_ours():
    tensor = empty(MIB)
    tensor.resize_(20 * MIB)
    assert is_ours(tensor)


def test_older_tensor_is_native_and_goes_back_to_it(older):
    tensor = older()
    assert not is_ours(tensor)
    before = torch.cuda.memory_allocated()
    size = tensor.numel()
    del tensor
    assert before - torch.cuda.memory_allocated() == size


def test_memory_of_older_tensor_returns_to_the_driver(older):
    tensor = older()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    size = tensor.numel()
    del tensor
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] >= free + min(size, 2 * MIB)


def test_resizing_an_older_tensor_keeps_it_native(older):
    tensor = older()
    tensor.resize_(50 * MIB)
    assert not is_ours(tensor)


def test_set_moves_an_older_tensor_to_ours(older):
    tensor = older()
    tensor.set_(torch.UntypedStorage(1024, device="cuda"))
    assert is_ours(tensor)


def test_older_tensor_is_kept_in_place_without_more_ado(older):
    tensor = older()
    with frugal_alloc.keep_in_place(tensor) as kept:
        assert (kept.address, kept.size) == (tensor.data_ptr(), tensor.nbytes)


def test_all_live_storages_have_the_standard_deleter():
    assert torch._C._has_Standard_Deleter(empty(MIB).untyped_storage()._cdata)


def test_storage_freed_behind_its_tensor_is_freed_once():
    before = torch.cuda.memory_allocated()
    tensor = empty(2 * MIB)
    torch._C._free_And_Remove_DeleterFn(tensor.untyped_storage()._cdata)
    assert torch.cuda.memory_allocated() == before
    del tensor
    assert torch.cuda.memory_allocated() == before
