"""Enabling and disabling, again and again, with memory of both kinds alive."""

import threading
from concurrent.futures import ThreadPoolExecutor

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, collect, empty, is_ours


def test_each_switch_may_be_set_twice():
    for _ in range(2):
        frugal_alloc.enable()
    assert frugal_alloc.is_enabled()
    assert is_ours(empty(MIB))
    for _ in range(2):
        frugal_alloc.disable()
    assert not frugal_alloc.is_enabled()
    tensor = empty(6 * MIB)
    assert not is_ours(tensor)
    assert torch._C._has_Standard_Deleter(tensor.untyped_storage()._cdata)


def test_disabling_gives_idle_memory_back():
    held = empty(200 * MIB)
    del held
    collect()
    reserved = torch.cuda.memory_reserved()
    frugal_alloc.disable()
    assert torch.cuda.memory_reserved() <= reserved - 200 * MIB


def test_memory_freed_by_another_thread_is_freed():
    before = torch.cuda.memory_allocated()
    held = [empty(3 * MIB) for _ in range(10)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert torch.cuda.memory_allocated() == before


def test_toggling_under_four_allocating_threads():
    collect()
    before = torch.cuda.memory_allocated()
    stop = threading.Event()

    def work(seed: int) -> int:
        steps = 0
        held: list[torch.Tensor] = []
        stream = torch.cuda.Stream()
        while not stop.is_set() or steps < 100:
            steps += 1
            tensor = empty((steps * seed % 41 + 1) * 30_000)
            if steps % 7 == 0:
                tensor.record_stream(stream)
            held.append(tensor)
            if len(held) > 20:
                del held[:: seed + 1]
        return steps

    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(work, seed) for seed in range(1, 5)]
        for _ in range(100):
            frugal_alloc.disable()
            frugal_alloc.enable()
        stop.set()
        assert all(future.result() >= 100 for future in futures)
    collect()
    assert torch.cuda.memory_allocated() == before


def test_stacks_of_several_threads_are_recorded_without_a_deadlock():
    """Python's lock is taken for a stack, and held while memory is asked about: never ours and Python's crosswise."""
    torch.cuda.memory._record_memory_history("all", context="all", stacks="python", max_entries=1000)
    stop = threading.Event()

    def work(seed: int) -> int:
        steps = 0
        while not stop.is_set() or steps < 50:
            steps += 1
            tensor = empty((steps * seed % 41 + 1) * 30_000)
            del tensor
        return steps

    try:
        with ThreadPoolExecutor(3) as threads:
            futures = [threads.submit(work, seed) for seed in range(1, 4)]
            for _ in range(5):
                assert torch.cuda.memory_stats()["allocation.all.current"] >= 0
                torch.cuda.memory_snapshot()
            stop.set()
            assert all(future.result() >= 50 for future in futures)
    finally:
        torch.cuda.memory._record_memory_history(None)


def test_garbage_is_collected_while_another_thread_asks_for_statistics():
    stop = threading.Event()

    def ask() -> int:
        asked = 0
        while not stop.is_set() or asked < 50:
            asked += 1
            torch.cuda.memory_stats()
            frugal_alloc.memory_stats()
        return asked

    with ThreadPoolExecutor(1) as thread:
        asking = thread.submit(ask)
        for _ in range(3):
            garbage = [empty(MIB)]
            garbage.append(garbage)
            del garbage
            with pytest.raises(torch.OutOfMemoryError):
                empty(1 << 44)
        stop.set()
        assert asking.result() >= 50
