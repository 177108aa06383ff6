"""Whether blocks have become larger is judged in Python as in C++: both are asked about the same cases
(tests/allocator/block_growth_test.cc)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._common.trend import Held, are_as_many, are_larger

CASES = json.loads((Path(__file__).parents[1] / "allocator/block_growth.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_cases_on_record_are_judged_as_cpp_judges_them(case: dict[str, Any]) -> None:
    before, after = Held(*case["before"]), Held(*case["after"])
    assert are_as_many(before, after) == case["as_many"]
    assert are_larger(before, after) == case["larger"]
