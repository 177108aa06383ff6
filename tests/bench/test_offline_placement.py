"""bench/offline_placement.py: placements that know the whole history, and the count of what they hold."""

from __future__ import annotations

import random

import numpy as np
import pytest
from frugal_alloc._replay import history_files
from frugal_alloc._replay.history import History

from bench.free_ranges import FreeRanges
from bench.generators.recorder import Recorder
from bench.lifetimes import GRAINS_A_PAGE, Lifetimes, lifetimes
from bench.offline_bound import lower_bound_bytes
from bench.offline_placement import held_pages, offline_placement_bytes, place

PAGE = GRAINS_A_PAGE


def blocks(*rows: tuple[int, int, int]) -> Lifetimes:
    """Of (birth, death, grains)."""
    birth, death, grains = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Lifetimes(2 * len(rows), birth, death, grains, np.zeros(len(rows), np.int64))


def random_history(seed: int, allocations: int = 600) -> History:
    chance = random.Random(seed)
    recorder = Recorder()
    live: list[int] = []
    for _ in range(allocations):
        while live and chance.random() < 0.5:
            recorder.free(live.pop(chance.randrange(len(live))))
        live.append(recorder.allocate(chance.choice([700, 300 << 10, 3 << 20, 9_000_000])))
    return recorder.history("random")


def test_pages_are_held_while_any_block_has_a_byte_in_them() -> None:
    two = blocks((0, 2, PAGE // 2), (1, 3, PAGE))
    apart, in_a_row = np.array([0, 10 * PAGE]), np.array([0, PAGE // 2])
    assert held_pages(two, apart).tolist() == [1, 2, 1, 0]
    assert held_pages(two, in_a_row).tolist() == [1, 2, 2, 0]


def test_a_page_between_two_blocks_in_turn_is_held_once() -> None:
    assert held_pages(blocks((0, 1, 8), (1, 3, 8)), np.array([0, 8])).tolist() == [1, 1, 1, 0]


def test_inner_pages_of_a_large_block_count() -> None:
    assert held_pages(blocks((0, 1, 5 * PAGE)), np.array([PAGE // 2])).tolist() == [6, 0]


def test_blocks_that_overlap_are_no_placement() -> None:
    with pytest.raises(ValueError, match="block 1 overlaps"):
        held_pages(blocks((0, 2, 8), (1, 3, 8)), np.array([0, 7]))
    with pytest.raises(ValueError, match="nowhere"):
        held_pages(blocks((0, 2, 8), (1, 3, 8)), np.array([0, -1]))


@pytest.mark.parametrize("cuts", [(0,), (50, 5, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_every_placement_is_one_and_lies_between_the_bound_and_twice_it(seed: int, cuts: tuple[int, ...]) -> None:
    history = random_history(seed)
    found = lifetimes(history)
    held = held_pages(found, place(found, cuts)).max() * PAGE * 512
    assert lower_bound_bytes(history) <= held <= 2 * lower_bound_bytes(history)


def test_same_history_gets_the_same_place() -> None:
    history = random_history(7)
    assert offline_placement_bytes(history) == offline_placement_bytes(history)


def test_fragments_of_one_fate_share_their_pages() -> None:
    """Four blocks of a page and a half that stay are six pages."""
    recorder = Recorder()
    for _ in range(4):
        recorder.allocate(3 << 20)
    history = recorder.history("run")
    assert offline_placement_bytes(history) == lower_bound_bytes(history) == 12 << 20


def test_of_a_real_history_the_placement_is_near_the_bound() -> None:
    """So that nobody wonders whether a better bound would say more: it could say .2 % more of this one."""
    real = history_files.read(history_files.find("mosaic"))
    assert lower_bound_bytes(real) <= offline_placement_bytes(real) <= 1.002 * lower_bound_bytes(real)


def test_free_ranges_are_what_was_not_taken_and_join_again() -> None:
    ranges = FreeRanges(100)
    ranges.take(10, 20)
    ranges.take(20, 30)
    ranges.take(60, 100)
    assert sorted(zip(ranges.begins.tolist(), ranges.ends.tolist(), strict=True)) == [(0, 10), (30, 60)]
    ranges.give(20, 30)
    ranges.give(10, 20)
    ranges.give(60, 100)
    assert (ranges.begins.tolist(), ranges.ends.tolist()) == ([0], [100])
