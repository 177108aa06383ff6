"""torch.cuda.MemPool: movable memory of ours with the pool's number, and segments from a capture on."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from binding_helpers import (
    GIB,
    KIB,
    MIB,
    captured,
    collect,
    empty,
    is_mapped,
    is_ours,
    pooled,
    room,
    segment_of,
)

pytestmark = pytest.mark.usefixtures("nothing_is_cached")


def bytes_of(pool: torch.cuda.MemPool) -> tuple[int, int]:
    """What is allocated in the pool, and what it has in all."""
    segments = pool.snapshot()
    return sum(s["allocated_size"] for s in segments), sum(s["total_size"] for s in segments)


# --- What PyTorch says of it


def test_memory_of_a_pool_is_ours_and_is_in_its_snapshot():
    pool, other = torch.cuda.MemPool(), torch.cuda.MemPool()
    tensor, ordinary = pooled(pool, 3 * MIB), empty(3 * MIB)
    assert is_ours(tensor) and is_mapped(tensor)
    assert [segment["address"] for segment in pool.snapshot()] == [tensor.data_ptr()]
    assert other.snapshot() == []
    snapshot = torch.cuda.memory._snapshot()
    assert segment_of(tensor, snapshot)["segment_pool_id"] == pool.id
    assert segment_of(ordinary, snapshot)["segment_pool_id"] == (0, 0)


def test_an_error_in_a_pool_tells_of_all_our_memory():
    kept = empty(3 * GIB)
    text = r"^CUDA out of memory\. Tried to allocate 16384\.00 GiB.*frugal_alloc has reserved 3\.\d+ GiB: 3\."
    for no_split in (False, True):
        with pytest.raises(torch.OutOfMemoryError, match=rf"(?s){text}"):
            pooled(torch.cuda.MemPool(no_split=no_split), 1 << 44)
    del kept


# --- Who has its memory


@pytest.mark.parametrize("no_split", [False, True])
def test_free_memory_of_a_pool_serves_it_again(no_split):
    pool = torch.cuda.MemPool(no_split=no_split)
    before = torch.cuda.memory_allocated()
    address = pooled(pool, 3 * MIB).data_ptr()
    assert empty(3 * MIB).data_ptr() != address
    assert pooled(pool, 3 * MIB).data_ptr() == address
    assert torch.cuda.memory_allocated() == before


def test_each_thread_and_each_inner_pool_has_its_own():
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(outer), ThreadPoolExecutor(1) as thread:
        held = [empty(3 * MIB), pooled(inner, 50 * MIB), thread.submit(empty, 7 * MIB).result()]
        held.append(empty(9 * MIB))
    assert bytes_of(outer)[0] == 12 * MIB
    assert bytes_of(inner)[0] == 50 * MIB
    assert all(map(is_ours, held))


def test_emptying_the_cache_leaves_open_pools_alone_as_natives_does():
    pool, other = torch.cuda.MemPool(), torch.cuda.MemPool()
    pooled(other, 3 * MIB)
    with torch.cuda.use_mem_pool(pool):
        empty(3 * MIB)
        torch.cuda.empty_cache()
        assert (bytes_of(pool)[1], bytes_of(other)[1]) == (4 * MIB, 4 * MIB)
    torch.cuda.empty_cache()
    assert (bytes_of(pool)[1], bytes_of(other)[1]) == (0, 0)


def test_a_pool_that_is_gone_gives_its_memory_back_at_once():
    before = torch.cuda.memory_reserved()
    pool = torch.cuda.MemPool()
    kept = pooled(pool, 6 * MIB)
    pooled(pool, 256 * MIB)
    del pool
    gc.collect()
    assert torch.cuda.memory_reserved() - before == 6 * MIB
    assert is_ours(kept)


def test_pieces_that_cannot_move_serve_others_where_the_pool_is_for_that():
    with room(2 * GIB):
        for use_on_oom in (False, True):
            pool = torch.cuda.MemPool(use_on_oom=use_on_oom)
            held = [pooled(pool, 256 * KIB) for _ in range(8)]
            address = held[3].data_ptr()
            del held[3]
            # The last of it a driver may need itself.
            rest = [empty(torch.cuda.mem_get_info()[0] // (2 * MIB) * 2 * MIB - 64 * MIB)]
            while True:
                try:
                    rest.append(empty(256 * KIB))
                except torch.OutOfMemoryError:
                    break
            # PyTorch's own allocator may have had more.
            assert any(one.data_ptr() == address for one in rest) == use_on_oom
            del rest, held, pool
            collect()
            torch.cuda.empty_cache()


def test_a_tensor_of_a_pool_can_be_shared():
    tensor = pooled(torch.cuda.MemPool(), 3 * MIB).fill_(7)
    handle = tensor.untyped_storage()._share_cuda_()
    assert int(tensor.cpu().sum()) == 7 * 3 * MIB
    torch.UntypedStorage._release_ipc_counter(handle[4], handle[5], device=handle[0])


# --- Graphs


def test_a_pool_has_segments_from_its_first_capture_on_and_all_stays_where_it_is():
    pool = torch.cuda.MemPool()
    kept, dropped = pooled(pool, 4 * MIB).fill_(7), pooled(pool, 4 * MIB).fill_(9)
    graph, result = captured(kept, pool=pool.id)
    other, others_result = captured(dropped, pool=pool.id)
    del dropped
    after = pooled(pool, 3 * MIB)
    assert [is_mapped(one) for one in (kept, result, after)] == [True, False, False]
    assert bytes_of(pool)[0] == 15 * MIB
    with room(2 * GIB):
        # All that can be had in pieces and by stitching, that of the tensor which replays still read not among it.
        filled = []
        with pytest.raises(torch.OutOfMemoryError):
            while True:
                filled.append(empty(16 * MIB).fill_(90))
    graph.replay()
    other.replay()
    assert result.cpu().eq(7).all() and others_result.cpu().eq(9).all()
    del graph, other, kept, result, others_result, filled, pool, after
    torch.cuda.empty_cache()
    assert not [segment for segment in torch.cuda.memory_snapshot() if segment["segment_pool_id"] != (0, 0)]


def test_a_request_from_within_a_capture_makes_a_pool_one_of_segments():
    pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
    pooled(pool, 3 * MIB)
    with torch.cuda.graph(graph):
        inside = pooled(pool, 3 * MIB)
    assert not is_mapped(inside) and not is_mapped(pooled(pool, 3 * MIB))


def test_a_pool_that_others_capture_beside_stays_movable():
    pool = torch.cuda.MemPool()
    graph = torch.cuda.CUDAGraph()
    with ThreadPoolExecutor(1) as thread, torch.cuda.graph(graph, capture_error_mode="thread_local"):
        assert thread.submit(pooled, pool, 3 * MIB).result().is_cuda
        result = empty(MIB)
    assert not is_mapped(result) and is_mapped(pooled(pool, 3 * MIB))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is only one GPU")
def test_one_id_is_a_pool_of_its_own_on_each_gpu():
    number, graphs, sources = torch.cuda.graph_pool_handle(), [], []
    for gpu in range(2):
        with torch.cuda.device(gpu):
            sources.append(empty(4 * MIB).fill_(gpu + 3))
            graphs.append(captured(sources[-1], pool=number, stream=torch.cuda.Stream()))
            graphs[-1][0].replay()
    assert [int(result[-1]) for _, result in graphs] == [3, 4]
    torch.cuda.synchronize(0)
    graphs.pop(0)
    left = [(s["device"], s["total_size"]) for s in torch.cuda.memory_snapshot() if s["segment_pool_id"] == number]
    assert left == [(1, 20 * MIB)]
