"""An amount of bytes reads the same in a text, on the page and in what C++ writes (allocator/port/format_bytes.h)."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
import report_samples as samples
from browser import Browser
from frugal_alloc._common.messages import format_bytes
from frugal_alloc._report import page
from frugal_alloc._report.headline import time_left

CASES = json.loads((Path(__file__).parents[1] / "allocator/format_bytes.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["bytes"]))
def test_amounts_on_record_read_as_in_cpp(case: dict) -> None:
    assert format_bytes(case["bytes"]) == case["text"]


def test_a_chart_reads_amounts_as_the_text_does(chromium: Browser, tmp_path: Path) -> None:
    amounts = [case for case in CASES if isinstance(case["bytes"], int) and case["bytes"] >= 0]
    points = [[step, 0, "", *[case["bytes"]] * 3] for step, case in enumerate(amounts)]
    drawn, charts = re.subn(
        r'data-points="[^"]*"', f'data-points="{html.escape(json.dumps(points))}"', page.render(samples.leaking())
    )
    assert charts > 0
    file = tmp_path / "page.html"
    file.write_text(drawn)
    chromium.show(file)
    chromium.value("document.querySelector('.plot').focus()")
    for case in amounts:
        chromium.press("ArrowRight")
        told = chromium.value("document.querySelector('.reading').textContent").partition(": ")[2]
        assert told == f"{case['text']} allocated, at most {case['text']}, {case['text']} reserved"


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
