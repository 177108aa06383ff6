"""Memory that nobody's line can be found for: whether it keeps growing."""

from __future__ import annotations

import pytest
from fake_library import FakeLibrary
from frugal_alloc._native.epochs import Finding
from frugal_alloc._native.sites import PrivatePool
from frugal_alloc._tracking import outside
from frugal_alloc._tracking.outside import LEAST_BOUNDARIES, Outside

MIB = 1 << 20


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch):
    """look(MiB outside, by end) -> what is found; `ends_a_step` ends of epochs come after the same step."""

    def looked(amounts: list[int], ends_a_step: int = 1) -> list[Finding]:
        watch = Outside(FakeLibrary())
        for number, amount in enumerate(amounts):
            monkeypatch.setattr(outside, "amount", lambda gpu, amount=amount: amount * MIB)
            watch.look(100 * (number // ends_a_step))
        return watch.found()

    return looked


def pool(number: int, kept: int, site: int = 1, holders: int = 1) -> PrivatePool:
    """One of a graph, which keeps so many MiB that are free."""
    return PrivatePool(0, (number, 0), site, True, holders, (kept + 3) * MIB, 3 * MIB, kept * MIB, 0)


@pytest.fixture
def look_at_pools(monkeypatch: pytest.MonkeyPatch):
    """look_at_pools(pools, by end) -> what is found."""
    monkeypatch.setattr(outside, "amount", lambda gpu: None)

    def looked(ends: list[list[PrivatePool]]) -> list[Finding]:
        library = FakeLibrary()
        watch = Outside(library)
        for number, pools in enumerate(ends):
            library.pools = pools
            watch.look(number)
        return watch.found_in_pools()

    return looked


def test_what_grows_to_the_last_is_found_with_its_rate(look) -> None:
    (found,) = look([500 + 10 * n for n in range(10)])
    assert (found.kind, found.gpu, found.bytes, found.epochs) == ("outside", 0, 90 * MIB, 10)
    assert found.bytes_per_epoch == 10 * MIB / 100


@pytest.mark.parametrize(
    "amounts",
    [
        [500 + 10 * n for n in range(LEAST_BOUNDARIES - 1)],
        [500 + 10 * min(n, 9) for n in range(13)],
        [500 + n // 2 for n in range(12)],
        [500, 700] * 6,
    ],
    ids=["too few ends", "filled its buffers", "less than a MiB an end", "to and fro"],
)
def test_anything_else_is_not(look, amounts: list[int]) -> None:
    assert look(amounts) == []


def test_two_ends_after_the_same_step_are_one(look) -> None:
    (found,) = look([500 + 10 * n for n in range(16)], ends_a_step=2)
    assert found.epochs == 8


@pytest.mark.parametrize(
    "ends",
    [
        [[pool(end, 10)] for end in range(10)],
        [[pool(n, 10, holders=int(n == end)) for n in range(end + 1)] for end in range(10)],
        [[pool(n, 10) for n in range(min(end, 5))] for end in range(13)],
    ],
    ids=["one in the place of another", "released", "each shape has its graph"],
)
def test_pools_that_do_not_become_more_are_no_leak(look_at_pools, ends: list[list[PrivatePool]]) -> None:
    assert look_at_pools(ends) == []
