"""bench/comparison/bound.py: the least memory in which a history could complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from frugal_alloc._planning.replay import history_files
from frugal_alloc._planning.replay.history import ALLOCATE, FREE

from bench.comparison.bound import PAGE_BYTES, lower_bound_bytes

MIB = 1 << 20
GRAINS = PAGE_BYTES // 512
SIZE = 5 * MIB // 4


def allocate(number: int, size: int, stream: int = 0) -> list[int]:
    return [ALLOCATE, number, size, stream]


@pytest.mark.parametrize(
    ("events", "bound"),
    [
        # One byte takes a page; each block has its grains of 512 bytes to itself.
        ([allocate(0, 1)], 2),
        ([allocate(number, 1) for number in range(GRAINS)], 2),
        ([allocate(number, 1) for number in range(GRAINS + 1)], 4),
        # Blocks that live together add up, and others do not.
        ([allocate(0, 3 * MIB), allocate(1, 3 * MIB), [FREE, 0], [FREE, 1]], 6),
        ([allocate(0, 3 * MIB), [FREE, 0], allocate(1, 3 * MIB)], 4),
        # Somebody waits for what a stream still uses.
        ([allocate(0, 4 * MIB), [FREE, 0, 1, 3], allocate(1, 4 * MIB), [FREE, 1], allocate(2, 4 * MIB, 1)], 4),
        # Streams, and small and large blocks, share pages.
        ([allocate(number, SIZE, number) for number in range(3)], 4),
        ([allocate(0, MIB), allocate(1, MIB + 512)], 4),
    ],
)
def test_bound_is_that_of_the_pages_that_are_live_at_a_time(
    events: list[list[int]], bound: int, tmp_path: Path
) -> None:
    path = tmp_path / "events.json"
    # Rows as bench/generators/README.md describes them.
    path.write_text(json.dumps({"frugal_alloc_history": 1, "events": events}))
    assert lower_bound_bytes(history_files.read(path)) == bound * MIB


def test_bound_is_never_below_live_and_never_a_page_above_the_grains_of_one_time() -> None:
    """Of a real recording without late frees."""
    real = history_files.read(history_files.find("mosaic"))
    bound = lower_bound_bytes(real)
    assert real.peak_live_bytes <= bound <= real.peak_live_bytes + 512 * real.allocation_count + PAGE_BYTES
