"""Which lines held more memory at each end of the program's epochs."""

from __future__ import annotations

import pytest
from fake_library import FakeLibrary
from frugal_alloc._tracking.epochs import RISING_ENDS, EpochMemory

Held = tuple[int, int]  # bytes and blocks


def ended(*ends: Held) -> EpochMemory:
    library = FakeLibrary()
    memory = EpochMemory(library)
    for size, blocks in ends:
        library.hold(size, blocks)
        memory.note()
    return memory


def test_site_whose_blocks_get_larger_with_each_epoch_grows() -> None:
    (found,) = ended(*((1000 + 50 * n, 4) for n in range(RISING_ENDS))).growing()
    assert (found.site, found.bytes, found.blocks, found.bytes_per_epoch) == (1, 1000 + 50 * (RISING_ENDS - 1), 4, 50)


@pytest.mark.parametrize(
    "ends",
    [
        [(1000 + 50 * n, 4) for n in range(RISING_ENDS - 1)],
        [(1000 * (n + 1), n + 1) for n in range(RISING_ENDS)],
        [(1000 + 50 * n * (n != 4), 4) for n in range(RISING_ENDS)],
        [(1000, 4)] * RISING_ENDS,
    ],
    ids=["too few ends", "more blocks, a leak's own sign", "less at one end", "as much"],
)
def test_anything_else_does_not(ends: list[Held]) -> None:
    assert ended(*ends).growing() == []


def test_site_that_takes_over_what_another_lets_go_does_not_grow() -> None:
    library = FakeLibrary()
    memory = EpochMemory(library)
    for number in range(RISING_ENDS):
        library.hold(1000 + 50 * number, 4)
        others = list(library.usages)
        library.hold(1000 - 50 * number, 4, site=2)
        library.usages += others
        memory.note()
    assert memory.growing() == []


def test_what_every_second_epoch_holds_more_of_has_not_grown() -> None:
    memory = ended((1000, 1), (1500, 1), (1000, 1), (1500, 1))
    assert not memory.has_grown(0, [1])
    assert ended((1000, 1), (1500, 1), (1000, 1), (1600, 1)).has_grown(0, [1])


def test_growth_is_that_of_the_sites_together() -> None:
    library = FakeLibrary()
    memory = EpochMemory(library)
    for site in (1, 2, 3):
        library.hold(1000, site=site)
        memory.note()
    assert not memory.has_grown(0, [1, 2, 3])
    assert memory.has_grown(0, [3])


def test_after_few_ends_growth_is_not_ruled_out() -> None:
    memory = ended((1000, 1), (1000, 1), (1000, 1))
    assert not memory.has_grown(0, [1])
    memory.clear()
    assert memory.has_grown(0, [1])
