"""What was measured on real GPUs, beside what is predicted for them; docs/fit.md says whether anything was."""

from __future__ import annotations

import importlib.util
import statistics
from pathlib import Path

import pytest

from bench.fit import measure

ROOT = Path(__file__).resolve().parents[2]
MEDIAN, TOO_LOW = 0.02, 0.01


def test_predictions_are_near_what_was_measured() -> None:
    entries = measure.load()
    if not entries:
        pytest.skip("not measured: no job has run on a GPU yet")
    if not importlib.util.find_spec("transformers"):
        entries = [entry for entry in entries if not entry.job.startswith("bert")]
    errors = [measure.predict(entry).figures["max_reserved"] / entry.max_reserved - 1 for entry in entries]
    assert statistics.median(map(abs, errors)) <= MEDIAN
    assert min(errors) >= -TOO_LOW


def test_the_page_says_that_nothing_was_measured_until_something_is() -> None:
    page = (ROOT / "docs" / "fit.md").read_text(encoding="utf-8")
    section = page.split("## Measured on hardware")[1].split("\n## ")[0]
    assert ("Not measured" in section) == (not measure.load())
