"""Memory over the steps of a long run: fewer points, and no peak lost."""

from __future__ import annotations

import pytest
from fake_library import FakeLibrary
from frugal_alloc._tracking import timeline
from frugal_alloc._tracking.timeline import Timeline

MOST = 8


@pytest.fixture
def library() -> FakeLibrary:
    return FakeLibrary()


@pytest.fixture
def run(library: FakeLibrary, monkeypatch: pytest.MonkeyPatch):
    """run(peaks, by step) -> the timeline of a run with these peaks."""
    monkeypatch.setattr(timeline, "MOST_POINTS", MOST)

    def ran(peaks: list[int]) -> Timeline:
        line = Timeline(library)
        for step, peak in enumerate(peaks, 1):
            library.peaks[0] = peak
            line.note(step, 0, "")
        return line

    return ran


def test_few_steps_have_a_point_each(run) -> None:
    assert [(point.step, point.peak_bytes) for point in run([5, 9, 7]).points] == [(1, 5), (2, 9), (3, 7)]


@pytest.mark.parametrize("highest", range(100))
def test_highest_peak_is_in_a_point_whatever_step_it_is_of(run, highest: int) -> None:
    line = run([10 + (step == highest) for step in range(100)] + [10] * 32)
    assert len(line.points) <= MOST
    points = [point for point in line.points if point.peak_bytes == 11]
    assert len(points) == 1
    earlier = [point.step for point in line.points if point.step < points[0].step]
    assert max(earlier, default=0) < highest + 1 <= points[0].step


def test_what_is_in_use_is_never_above_the_peak(run, library: FakeLibrary) -> None:
    library.allocated[0] = 50
    assert {point.peak_bytes for point in run([10, 20]).points} == {50}
