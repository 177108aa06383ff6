"""An amount of bytes reads the same in a text and in what C++ writes (allocator/port/format_bytes.h)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from frugal_alloc._common.messages import format_bytes
from frugal_alloc._report.headline import time_left
from simulated_gpu import messages

CASES = json.loads((Path(__file__).parents[1] / "allocator/format_bytes.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["bytes"]))
def test_amounts_on_record_read_as_in_cpp(case: dict) -> None:
    assert format_bytes(case["bytes"]) == case["text"]
    if isinstance(case["bytes"], int) and case["bytes"] >= 0:  # as memory is
        assert messages.format_bytes(case["bytes"]) == case["text"]


@pytest.mark.parametrize(
    ("left", "words"),
    [
        ({"epochs": 7.3, "steps": 731.0}, "7.3 epochs (731 steps)"),
        ({"epochs": 10_137.6, "steps": None}, "10,138 epochs"),
        ({"epochs": 731.0, "steps": 731.0}, "731 steps"),
        ({"epochs": 9.0, "steps": 1152.0, "seconds": 34 * 3600.0}, "34 hours"),
        ({"epochs": 9.0, "steps": None, "seconds": 90_000.0 * 9}, "9 days"),
        ({"epochs": 0.1, "steps": None, "seconds": 30.0}, "less than two minutes"),
    ],
)
def test_the_time_that_is_left_is_told_as_people_count_it(left: dict[str, float | None], words: str) -> None:
    assert time_left(left) == words
