"""MemPools of segments: those that are not to be split, and those whose memory comes from the program's functions."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from binding_helpers import GIB, MIB, UsersAllocator, captured, empty, is_mapped, pooled, room, run_well

pytestmark = pytest.mark.usefixtures("nothing_is_cached")


def test_a_pool_that_must_not_split_hands_out_whole_blocks():
    pool = torch.cuda.MemPool(no_split=True)
    address = pooled(pool, 6 * MIB).data_ptr()
    tensors = [pooled(pool, 2 * MIB), pooled(pool, 2 * MIB)]
    assert tensors[0].data_ptr() == address and not is_mapped(tensors[0])
    # As many as native has, which takes 20 MiB for small requests.
    assert [[block["size"] for block in segment["blocks"]] for segment in pool.snapshot()] == [[20 * MIB]] * 2
    torch.cuda.empty_cache()
    del tensors
    torch.cuda.empty_cache()
    assert [segment["total_size"] for segment in pool.snapshot()] == [20 * MIB] * 2, (
        "they stay for whoever has registered them"
    )


IN_A_POOL = """
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    kept = torch.empty(1 << 20, device="cuda")
"""
IN_A_GRAPH = """
graph, source = torch.cuda.CUDAGraph(), torch.empty(1 << 20, device="cuda")
with torch.cuda.graph(graph):
    kept = source.clone()
graph.replay()
"""


@pytest.mark.parametrize("program", [IN_A_POOL, IN_A_GRAPH])
def test_pools_that_torch_memory_saver_is_to_pause_are_of_cuda_malloc(program):
    result = run_well(
        f"import frugal_alloc, torch\nfrugal_alloc.enable(){program}"
        "report(mapped=[s['is_expandable'] for s in torch.cuda.memory_snapshot() if s['segment_pool_id'] != (0, 0)])",
        # It is not there, and ld.so goes on without.
        LD_PRELOAD=f"{os.environ.get('LD_PRELOAD', '')} /nowhere/torch_memory_saver_hook_mode_preload.so",
    )
    assert result["mapped"] == [False]


def test_a_users_own_allocator_is_asked_for_segments_and_has_them_back_with_the_pool():
    users = UsersAllocator()
    pool = torch.cuda.MemPool(users.allocator)
    tensors = [pooled(pool, size) for size in (100, 3 * MIB, 5 * MIB, 13 * MIB, 30 * MIB + 1)]
    assert list(users.live.values()) == [2 * MIB, 20 * MIB, 14 * MIB, 32 * MIB], "PyTorch's sizes of segments"
    assert [segment["address"] for segment in pool.snapshot()] == sorted(users.live)
    torch.cuda.empty_cache()
    graph, result = captured(empty(30 * MIB))
    del tensors[1:]
    torch.cuda.empty_cache()
    assert len(users.live) == 4
    assert result.data_ptr() not in users.live and empty(30 * MIB).data_ptr() not in users.live
    del pool
    assert list(users.live.values()) == [2 * MIB], f"although {graph} lives, of another pool"
    del tensors
    torch.cuda.empty_cache()
    assert not users.live


def test_a_users_allocator_that_has_no_more_is_an_ordinary_error():
    users = UsersAllocator()
    pool = torch.cuda.MemPool(users.allocator)
    users.is_out = True
    with pytest.raises(torch.OutOfMemoryError, match=r"(?s)^CUDA out of memory\. Tried to allocate 3\.00 MiB.*Held"):
        pooled(pool, 3 * MIB)
    users.is_out = False
    assert pooled(pool, 3 * MIB).data_ptr() in users.live


def test_others_go_on_while_a_users_function_is_under_way():
    """It may need Python's lock, as here, which one has who deletes a pool or asks for figures."""
    users, inside, may_end = UsersAllocator(), threading.Event(), threading.Event()
    pool, other = torch.cuda.MemPool(users.allocator), torch.cuda.MemPool()
    allocated = torch.cuda.memory_allocated()
    tensor = pooled(other, MIB)
    users.on_request = lambda: inside.set() or may_end.wait()
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(pooled, pool, MIB)
        inside.wait()
        try:
            del tensor, other
            torch.cuda.memory_snapshot()
            torch.cuda.empty_cache()
            assert not users.live and torch.cuda.memory_allocated() == allocated
        finally:
            may_end.set()
        assert made.result().data_ptr() in users.live
    # While there are functions to give it back to.
    del made, pool
    torch.cuda.empty_cache()
    assert not users.live


def test_memory_of_a_users_allocator_may_be_captured_into():
    users = UsersAllocator()
    pool = torch.cuda.MemPool(users.allocator)
    graph, result = captured(empty(4 * MIB), pool=pool.id)
    assert result.data_ptr() in users.live
    graph.replay()
    del graph, result, pool
    torch.cuda.synchronize()
    assert not users.live


def test_segments_serve_others_where_the_pool_is_for_that_before_an_error():
    with room(6 * GIB):
        pool = torch.cuda.MemPool(use_on_oom=True, no_split=True)
        address = pooled(pool, 4 * GIB).data_ptr()
        before = torch.cuda.memory_stats()["num_ooms"]
        assert empty(3 * GIB).data_ptr() == address
        assert torch.cuda.memory_stats()["num_ooms"] == before
        torch.cuda.reset_accumulated_memory_stats()
        assert torch.cuda.memory_stats()["num_ooms"] == 0
        held = empty(3 * GIB)
        del pool
        assert held.data_ptr() == address
        held.zero_()
