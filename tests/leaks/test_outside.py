"""Memory that nobody's line can be found for: whether it keeps growing."""

from __future__ import annotations

import pytest
from fake_library import FakeLibrary
from frugal_alloc._native.epochs import Finding
from frugal_alloc._tracking import outside
from frugal_alloc._tracking.outside import LEAST_BOUNDARIES, Outside

MIB = 1 << 20


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch):
    """look(MiB outside, by end) -> what is found; `ends_a_step` ends of epochs come after the same step."""

    def looked(amounts: list[int], ends_a_step: int = 1) -> list[Finding]:
        watch = Outside(FakeLibrary())
        for number, amount in enumerate(amounts):
            monkeypatch.setattr(outside, "amounts", lambda gpu, library, amount=amount: (amount * MIB, None))
            watch.look(100 * (number // ends_a_step))
        return watch.found()

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
