"""Checkpoints of private pools, as torch.compile's graph trees make them: all is where it was, and as much."""

import pytest
import torch
from binding_helpers import MIB, empty


class CheckpointedPool:
    """Of GPU 0; held until `release()`."""

    def __init__(self) -> None:
        self.id = torch.cuda.graph_pool_handle()
        torch._C._cuda_beginAllocateCurrentThreadToPool(0, self.id)
        torch._C._cuda_endAllocateToPool(0, self.id)

    def release(self) -> None:
        torch._C._cuda_releasePool(0, self.id)

    def make(self, size: int) -> torch.Tensor:
        torch._C._cuda_beginAllocateCurrentThreadToPool(0, self.id)
        try:
            return empty(size)
        finally:
            torch._C._cuda_endAllocateToPool(0, self.id)
            self.release()

    def state(self):
        return torch._C._cuda_getCheckpointState(0, self.id)

    def restore(self, state, *stale: torch.Tensor) -> None:
        torch._C._cuda_setCheckpointPoolState(0, state, [one.untyped_storage()._cdata for one in stale], [])

    def has(self, *addresses: int) -> bool:
        """Whether just these are in use."""
        return torch._C._cuda_checkPoolLiveAllocations(0, self.id, set(addresses))


@pytest.fixture
def pool():
    torch.cuda.init()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    made = CheckpointedPool()
    yield made
    made.release()
    torch.cuda.empty_cache()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before


def test_a_checkpoint_brings_back_what_was_in_use_at_its_addresses(pool):
    kept = [pool.make(size) for size in (1000, 3 * MIB, 30 * MIB)]
    addresses = [tensor.data_ptr() for tensor in kept]
    state, allocated = pool.state(), torch.cuda.memory_allocated()
    del kept[1]
    later = [pool.make(size) for size in (2 * MIB, MIB, 1000)]
    pool.restore(state, *later)
    assert pool.has(*addresses) and not pool.has(*addresses[:2])
    assert torch.cuda.memory_allocated() == allocated
    deleters = [torch._C._has_Standard_Deleter(one.untyped_storage()._cdata) for one in [*kept, *later]]
    assert deleters == [True, True, False, False, False]
    # What a tensor that is gone had there is the program's to free.
    torch._C._cuda_cudaCachingAllocator_raw_delete(addresses[1])
    assert pool.has(addresses[0], addresses[2])


def test_what_a_checkpoint_frees_serves_the_next_request(pool):
    state = pool.state()
    first = pool.make(5 * MIB)
    address, later = first.data_ptr(), pool.state()
    pool.restore(state, first)
    assert pool.make(5 * MIB).data_ptr() == address
    pool.restore(later)
    assert pool.has(address)
    torch._C._cuda_cudaCachingAllocator_raw_delete(address)


@pytest.mark.parametrize(
    "is_older",
    [
        False,
        pytest.param(
            True, marks=pytest.mark.xfail(run=False, reason="it waits for the stream, as in native; ends the process")
        ),
    ],
)
def test_a_checkpoint_is_restored_where_another_stream_has_used_what_goes_and_what_stays(pool, is_older):
    before = pool.make(MIB) if is_older else None
    state = pool.state()
    tensor = pool.make(MIB) if before is None else before
    user = torch.cuda.Stream()
    user.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(user):
        tensor.zero_()
    tensor.record_stream(user)
    torch.cuda.synchronize()
    pool.restore(state, *([] if is_older else [tensor]))
    assert pool.has(*([before.data_ptr()] if is_older else []))
