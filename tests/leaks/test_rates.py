"""A rate is of all that a line keeps, per epoch of the program, whatever the library has judged it by."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from frugal_alloc._common.trend import Held
from frugal_alloc._native.epochs import Finding
from frugal_alloc._tracking import rates

# Of one size out of three, which come in turn.
FINDING = Finding("leak", 0, 1, 300, 3, 3, 34.0, 0.95, 128)


def kept(sizes: list[int], every: int = 1) -> list[tuple[int, int, int]]:
    return [(number, size, 2 + every * number) for number, size in enumerate(sizes)]


@pytest.mark.parametrize("sizes", [[90, 100, 110] * 4, [110, 90, 100] * 3, [100] * 7])
def test_sizes_that_take_turns_have_the_rate_of_all(sizes: list[int]) -> None:
    found = rates.of_all(FINDING, kept(sizes))
    assert (found.bytes, found.blocks, found.epochs) == (sum(sizes), len(sizes), len(sizes))
    assert found.bytes_per_epoch == pytest.approx(100, rel=0.01)


def test_what_is_replaced_as_it_grows_has_the_rate_of_the_trend() -> None:
    # The later epochs have more left than the earlier ones had at their time.
    blocks = kept([10, 10, 20, 20, 40, 40, 80, 80])
    finding = FINDING._replace(bytes=300, bytes_per_epoch=60.0)
    assert rates.of_all(finding, blocks) == finding


@pytest.mark.parametrize("blocks", [[], kept([100])[:1], [(0, 400, -1)]])
def test_rate_of_what_is_let_go_or_not_known_is_the_trends(blocks: list[tuple[int, int, int]]) -> None:
    assert rates.of_all(FINDING, blocks) == FINDING


@pytest.mark.parametrize(("every", "blocks_of_epochs"), [(1, 6), (2, 12), (4, 12)])
def test_epochs_are_the_programs_that_have_left_something(every: int, blocks_of_epochs: int) -> None:
    # A window is half of an epoch.
    epochs = SimpleNamespace(steps_per_judged_epoch=2, steps_per_epoch=4.0, window_steps=2, ended=30)
    blocks = kept([100] * 12, every)
    found, per_step = rates.per_program_epoch(rates.of_all(FINDING, blocks), blocks, epochs)
    assert found.epochs == blocks_of_epochs
    assert (found.bytes_per_epoch, per_step) == (4 * per_step, pytest.approx(100 / every / 2, rel=0.05))


def test_what_was_let_go_has_the_rate_of_all_that_was_held_at_the_ends_of_epochs() -> None:
    ends = [Held(1000 + 100 * number, 10 + number) for number in range(8)]
    found, per_step = rates.of_let_go(FINDING, 3.4, ends)
    assert (found.bytes, found.blocks, found.epochs, found.bytes_per_epoch) == (1700, 17, 8, 100)
    assert per_step == pytest.approx(10)
    assert rates.of_let_go(FINDING, 3.4, []) == (FINDING, 3.4)
