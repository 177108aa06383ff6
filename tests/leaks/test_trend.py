"""The statistics of trends and of growing blocks are those of C++: both are asked about the same cases
(tests/allocator/trend_test.cc). The figures of series were reckoned from the definition, in fractions and forty
digits."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._common.trend import TREND_CONFIDENCE, Held, are_as_many, are_larger, median_slope, rank_confidence

TESTS = Path(__file__).parents[1]
SERIES = json.loads((TESTS / "allocator/trend_series.json").read_text())
GROWTHS = json.loads((TESTS / "allocator/block_growth.json").read_text())


@pytest.mark.parametrize("series", SERIES, ids=lambda series: series["name"])
def test_series_on_record_have_the_slope_and_confidence_that_cpp_gives_them(series: dict[str, Any]) -> None:
    assert median_slope(series["values"]) == pytest.approx(series["slope"], abs=1e-9)
    assert rank_confidence(series["values"]) == pytest.approx(series["confidence"], abs=1e-9)


@pytest.mark.parametrize("case", GROWTHS, ids=lambda case: case["name"])
def test_blocks_on_record_are_judged_as_cpp_judges_them(case: dict[str, Any]) -> None:
    before, after = Held(*case["before"]), Held(*case["after"])
    assert are_as_many(before, after) == case["as_many"]
    assert are_larger(before, after) == case["larger"]


def test_both_name_the_same_level() -> None:
    header = (TESTS.parent / "allocator/births/trend.h").read_text()
    assert f"kTrendConfidence = {TREND_CONFIDENCE};" in header


def test_series_that_neither_rises_nor_falls_seems_to_rise_in_one_of_twenty_cases() -> None:
    source = random.Random(1)
    noise = [[source.gauss(0, 1) for _ in range(16)] for _ in range(1000)]
    assert 30 <= sum(rank_confidence(values) >= TREND_CONFIDENCE for values in noise) <= 70


def test_thousands_of_values_are_judged_by_some_hundreds_of_them() -> None:
    values = list(range(0, 20_000, 2))
    assert median_slope(values) == 2
    assert rank_confidence(values) > 0.99
