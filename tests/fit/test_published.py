"""Peaks that others have published: each has what it needs to be checked, and the page shows what was found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from simulated_gpu import gpu_models

from bench.fit import published

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = published.load()
EACH = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
# Of those that take seconds and need torch alone.
QUICK = ("Linear layer, used once and dropped", "Ten growing tensors", "GPT-2 XL, weights")


@EACH
def test_a_figure_has_its_source_and_a_job_that_exists(entry: published.Published) -> None:
    assert re.fullmatch(r"https://\S+", entry.source)
    module, function = entry.job.split(".")
    assert f"\ndef {function}(" in (published.JOBS / f"{module}.py").read_text()
    assert gpu_models.find(entry.gpu)
    assert entry.metric in ("allocated", "max_allocated", "max_reserved", "in_use")
    assert entry.versions and entry.gpu_published


@EACH
def test_bytes_are_those_of_the_text(entry: published.Published) -> None:
    figure, unit = entry.published.split(" ")
    assert abs(float(figure) * published.UNITS[unit] - entry.bytes) <= max(entry.rounding_bytes, 1 << 13)


def test_there_are_twelve_and_names_are_unique() -> None:
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names) >= 12


def test_results_are_of_these_figures() -> None:
    assert [result.published for result in published.results()] == ENTRIES


def test_the_page_has_the_results() -> None:
    page, guide = (path.read_text(encoding="utf-8") for path in (published.PAGE, ROOT / "docs" / "fit.md"))
    assert published.table(published.results()) in page
    assert all(published.summary(published.results()) in text for text in (page, guide))


@pytest.mark.parametrize("name", QUICK)
def test_a_job_takes_today_what_the_results_say(name: str) -> None:
    entry = next(entry for entry in ENTRIES if entry.name == name)
    recorded = next(result for result in published.results() if result.published == entry)
    assert published.predict(entry)["predicted_bytes"] == recorded.predicted_bytes
