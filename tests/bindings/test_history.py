"""Snapshots, the recorded history and the profiler: what they say of our memory."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import torch
from binding_helpers import MIB, collect, empty, limit, natively
from frugal_alloc import memory_stats


@pytest.fixture
def recording():
    torch.cuda.memory._record_memory_history(max_entries=10_000)
    yield
    torch.cuda.memory._record_memory_history(None)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_blocks_fill_their_segments():
    held = [empty(size) for size in (100, 3 * MIB, 700_000, 20 * MIB)]
    del held[1]
    for segment in torch.cuda.memory_snapshot():
        end = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == end
            end += block["size"]
        assert end == segment["address"] + segment["total_size"]
        assert segment["allocated_size"] == sum(
            block["size"] for block in segment["blocks"] if block["state"] == "active_allocated"
        )


def test_segments_add_up_to_reserved_memory():
    held = empty(9 * MIB)
    assert sum(segment["total_size"] for segment in torch.cuda.memory_snapshot()) == torch.cuda.memory_reserved()
    assert sum(segment["allocated_size"] for segment in torch.cuda.memory_snapshot()) == torch.cuda.memory_allocated()
    del held


def test_segments_are_in_the_order_of_addresses():
    with natively():
        native = empty(3 * MIB)
    ours = empty(3 * MIB)
    # Our ranges are not made in the order of their streams.
    use_memory_so_that_it_is_stitched()
    addresses = [segment["address"] for segment in torch.cuda.memory_snapshot()]
    assert addresses == sorted(addresses)
    del native, ours


def test_traced_snapshot_counts_natives_memory_and_ours_once(recording):
    with natively():
        native = empty(3 * MIB)
    ours = empty(5 * MIB)
    torch.cuda.memory._snapshot()
    entries = [e for e in torch.cuda.memory._snapshot()["device_traces"][0] if e["action"] == "snapshot"]
    assert entries[-1]["size"] == torch.cuda.memory_stats()["active_bytes.all.current"]
    del native, ours


def test_trace_is_in_the_order_of_time(recording):
    for _ in range(10):
        ours = empty(MIB)
        with natively():
            native = empty(MIB)
        del ours, native
    times = [entry["time_us"] for entry in torch.cuda.memory._snapshot()["device_traces"][0]]
    assert times == sorted(times)


def test_trace_of_ours_and_natives_memory_together_is_no_longer(recording):
    torch.cuda.memory._record_memory_history(None)
    with natively():
        natives = [empty(512) for _ in range(20)]
    torch.cuda.memory._record_memory_history(max_entries=10)
    while natives:
        freed = natives.pop().data_ptr()
        ours = empty(1024)
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    assert len(trace) <= 10
    assert {freed, ours.data_ptr()} <= {entry["addr"] for entry in trace}


def test_trace_takes_no_more_of_the_hosts_memory_than_its_newest_entries(recording):
    torch.cuda.memory._record_memory_history(max_entries=1000, context=None)
    for _ in range(1000):
        empty(512)
    before = resident_bytes()
    for _ in range(30_000):
        empty(512)
    # Three entries each; all of them would be some 15 MiB.
    assert resident_bytes() - before < 5 * MIB


def test_blocks_recorded_before_the_end_are_freed_after_it(recording):
    tensor = empty(5 * MIB)
    before = torch.cuda.memory_allocated()
    torch.cuda.memory._record_memory_history(None)
    del tensor
    assert torch.cuda.memory_allocated() == before - 5 * MIB


class State:
    """Address ranges and blocks, led back from a snapshot through its trace as PyTorch's pages do it."""

    def __init__(self, snapshot: dict) -> None:
        self.ranges: dict[int, tuple[int, int]] = {}  # size and stream, by address
        for segment in snapshot["segments"]:
            self._add(segment["address"], segment["total_size"], segment["stream"])
        in_use = (b for s in snapshot["segments"] for b in s["blocks"] if b["state"] != "inactive")
        self.blocks = {b["address"]: b["requested_size"] for b in in_use}

    def undo(self, entry: dict) -> None:
        address, size = entry.get("addr"), entry["size"]
        if entry["action"] == "alloc":
            assert self.blocks.pop(address) == size
        elif entry["action"] == "free_completed":
            assert address not in self.blocks
            self._range_around(address, size)
            self.blocks[address] = size
        elif entry["action"] in ("segment_map", "segment_alloc"):
            assert not [a for a in self.blocks if address <= a < address + size], "taken from under a block"
            start = self._range_around(address, size)
            whole, stream = self.ranges.pop(start)
            assert stream == entry["stream"]
            self._add(start, address - start, stream)
            self._add(address + size, start + whole - address - size, stream)
        elif entry["action"] in ("segment_unmap", "segment_free"):
            assert not any(a < address + size and address < a + s for a, (s, _) in self.ranges.items()), "gone twice"
            self._add(address, size, entry["stream"])

    def _range_around(self, address: int, size: int) -> int:
        (start,) = [a for a, (s, _) in self.ranges.items() if a <= address and address + size <= a + s]
        return start

    def _add(self, start: int, size: int, stream: int) -> None:
        """Adds a range, joined with neighbours of its stream."""
        if size == 0:
            return
        for other, (length, its_stream) in list(self.ranges.items()):
            if its_stream == stream and other in (start + size, start - length):
                del self.ranges[other]
                start, size = min(start, other), size + length
        self.ranges[start] = (size, stream)


def use_memory_so_that_it_is_stitched() -> None:
    random = Random(6)
    side = torch.cuda.Stream()
    for step in range(4):
        held = []
        for i in range(30):
            with torch.cuda.stream(side if i % 7 == 3 else None):
                held.append(empty(random.choice((300, 5000, 700_000, 3 * MIB, 7 * MIB, 20 * MIB, 33 * MIB + 5))))
            if random.random() < 0.4:
                held.pop(random.randrange(len(held)))
        empty((60 + 20 * step) * MIB)
        del held[::2]
        empty((100 + 20 * step) * MIB)
        if step == 2:
            torch.cuda.empty_cache()


def test_trace_of_stitches_leads_back_to_where_it_began(recording):
    collect()
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(clear_history=True)
    before = torch.cuda.memory._snapshot()
    stitches = memory_stats()["stitches"]
    with limit(torch.cuda.memory_reserved() + 560 * MIB):
        use_memory_so_that_it_is_stitched()
    assert memory_stats()["stitches"] > stitches
    after = torch.cuda.memory._snapshot()
    state = State(after)
    for entry in reversed(after["device_traces"][0]):
        state.undo(entry)
    at_start = State(before)
    assert state.blocks == at_start.blocks
    assert state.ranges == at_start.ranges


def test_history_under_four_threads(recording):
    def work(seed: int) -> None:
        for i in range(200):
            tensor = empty((i * seed % 37 + 1) * 50_000)
            if i % 20 == 0:
                torch.cuda.memory._snapshot()
            del tensor

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(1, 5)))
    actions = [entry["action"] for entry in torch.cuda.memory._snapshot()["device_traces"][0]]
    assert actions.count("alloc") == actions.count("free_completed") == 800
