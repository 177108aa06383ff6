"""A leak is material if it would fill the rest of its GPU within 10,000 epochs or 1,000,000 steps, a server's within 30
days."""

from __future__ import annotations

from typing import Any

import pytest
from frugal_alloc._tracking import materiality
from frugal_alloc._tracking.materiality import MOST_DAYS, MOST_EPOCHS, MOST_STEPS, SECONDS_PER_DAY

GIB = 1 << 30
# Its limit leaves 20 GiB above the peak.
GPU = {
    "gpu": 0, "total_bytes": 24 * GIB, "limit_bytes": 23 * GIB, "outside_bytes": GIB // 2,
    "native_reserved_bytes": GIB, "peak_allocated_bytes": 2 * GIB,
}  # fmt: skip
ROOM = 20 * GIB


def verdict(per_epoch: float, per_step: float | None = None, **rest: Any) -> dict[str, Any]:
    row = {"kind": "leak", "gpu": 0, "pattern": "", "phase": "", "advice": "", "held_by": []}
    return row | {"bytes_per_epoch": per_epoch, "bytes_per_step": per_step} | rest


def test_the_room_is_what_the_limit_leaves_above_the_peak() -> None:
    assert materiality.room(GPU) == ROOM
    assert materiality.room(GPU | {"outside_bytes": 4 * GIB}) == 17 * GIB
    assert materiality.room(GPU | {"peak_allocated_bytes": 30 * GIB}) == 0


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (verdict(ROOM / MOST_EPOCHS), True),
        (verdict(0.999 * ROOM / MOST_EPOCHS), False),
        (verdict(0.5 * ROOM / MOST_EPOCHS, ROOM / MOST_STEPS), True),
        (verdict(0.5 * ROOM / MOST_EPOCHS, 0.999 * ROOM / MOST_STEPS), False),
        (verdict(ROOM / MOST_STEPS, ROOM / MOST_STEPS), True),
        (verdict(0.999 * ROOM / MOST_STEPS, 0.999 * ROOM / MOST_STEPS), False),
        (verdict(3 * 512, 3 * 512 / 8), False),
    ],
    ids=[
        "epochs",
        "more epochs",
        "steps",
        "more steps",
        "steps as epochs",
        "more of them",
        "three tensors of 512 bytes",
    ],
)
def test_it_is_full_in_time_or_it_is_not(row: dict[str, Any], expected: bool) -> None:
    assert materiality.of([row], [GPU]) == [expected]


@pytest.mark.parametrize("seconds_per_epoch", [0.5, 600.0])
def test_a_servers_leak_is_judged_by_days_and_calls(seconds_per_epoch: float) -> None:
    full = ROOM * seconds_per_epoch / (MOST_DAYS * SECONDS_PER_DAY)
    rows = [verdict(1.001 * full), verdict(0.999 * full, gpu=1), verdict(1, ROOM / MOST_STEPS, gpu=2)]
    gpus = [GPU | {"gpu": gpu} for gpu in range(3)]
    assert materiality.of(rows, gpus, seconds_per_epoch) == [True, False, True]


def test_what_a_leak_holds_is_of_one_moment() -> None:
    let_go, held = {"bytes": 100, "blocks": 10}, {"bytes": 100, "blocks": 10, "bytes_now": 120, "blocks_now": 12}
    assert materiality.Cause([held, held]).held == (240, 24)
    assert materiality.Cause([let_go | {"bytes_now": 0, "blocks_now": 0}]).held == (100, 10)
    assert materiality.Cause([held, let_go]).held == (200, 20)


def test_holders_are_of_all_lines_of_a_leak() -> None:
    holder = {"what": "list 'losses'", "file": "train.py", "line": 30, "tensors": 7}
    cause = materiality.Cause([{"held_by": [holder | {"bytes": size, "share": 0.5}]} for size in (300, 100)])
    assert cause.holders == [holder | {"bytes": 400, "share": 0.5}]


@pytest.mark.parametrize(
    ("row", "gpus"),
    [
        (verdict(512), []),
        (verdict(512), [GPU | {"gpu": 1}]),
        (verdict(512), [GPU | {"total_bytes": 0, "limit_bytes": 0}]),
        (verdict(512), [GPU, GPU | {"total_bytes": 0, "limit_bytes": 0}]),
        (verdict(0), [GPU]),
    ],
    ids=["no GPU", "another GPU", "size not known", "of one rank not known", "rate not known"],
)
def test_what_cannot_be_judged_is_material(row: dict[str, Any], gpus: list[dict[str, Any]]) -> None:
    assert materiality.of([row], gpus) == [True]


def test_on_a_full_gpu_everything_is_material() -> None:
    assert materiality.of([verdict(1)], [GPU | {"peak_allocated_bytes": 23 * GIB}]) == [True]


def test_of_several_ranks_the_fullest_gpu_counts() -> None:
    full = GPU | {"peak_allocated_bytes": 22 * GIB, "rank": 1}
    assert materiality.of([verdict(512)], [GPU | {"rank": 0}, full]) == [True]


def test_lines_of_one_cause_are_judged_together() -> None:
    held = {"held_by": [{"what": "list 'losses'", "line": 30}], "pattern": "loss_graph"}
    rows = [verdict(GIB, line=1, **held), verdict(512, line=2, **held), verdict(512, line=3)]
    assert materiality.of(rows, [GPU]) == [True, True, False]


def test_small_ones_that_fill_the_gpu_together_are_not_all_small() -> None:
    third = 0.4 * ROOM / MOST_EPOCHS
    assert materiality.of([verdict(third), verdict(2 * third), verdict(0.9 * third)], [GPU]) == [False, True, False]
    assert materiality.of([verdict(third) for _ in range(4)], [GPU]).count(False) == 2
