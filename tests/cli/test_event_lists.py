"""Histories that some program has made up, as bench/generators/README.md describes them; bad ones: tests/bad_input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._planning.replay import history_files, recordings
from frugal_alloc._planning.replay.history import EVENT

ALLOCATE, FREE = 0, 1
TWO = [[ALLOCATE, 0, 700, 0], [ALLOCATE, 1, 300, 1], [FREE, 0], [FREE, 1]]


def write(path: Path, events: Any, **others: Any) -> Path:
    path.write_text(json.dumps({"frugal_alloc_history": 1, "events": events, **others}))
    return path


def test_events_are_taken_as_they_are(tmp_path: Path) -> None:
    rows = [[ALLOCATE, 0, 700, 0], [ALLOCATE, 1, 300, 2], [FREE, 0, 1, 4], [FREE, 1]]
    history = history_files.read(write(tmp_path / "made-up.json", rows))
    assert list(EVENT.iter_unpack(history.events)) == [
        (ALLOCATE, 0, 700, 0, 0, 0),
        (ALLOCATE, 1, 300, 2, 0, 0),
        (FREE, 0, 0, 0, 1, 4),
        (FREE, 1, 0, 0, 0, 0),
    ]
    assert (history.name, history.event_count, history.allocation_count) == ("made-up.json", 4, 2)
    assert (history.stream_count, history.initial_count) == (3, 0)


def test_memory_freed_late_counts_as_live_until_it_is_ready(tmp_path: Path) -> None:
    def peak(ready: int) -> int:
        rows = [[ALLOCATE, 0, 700, 0], [FREE, 0, 1, ready], [ALLOCATE, 1, 300, 0], [ALLOCATE, 2, 500, 0]]
        return history_files.read(write(tmp_path / "late.json", rows)).peak_live_bytes

    assert [peak(ready) for ready in (2, 3, 4)] == [800, 1_000, 1_500]


def test_marks_are_read_and_may_be_missing(tmp_path: Path) -> None:
    marked = history_files.read(write(tmp_path / "a.json", TWO, warm_up_end=2, turn_ends=[1, 4], stream_lag=3))
    assert (marked.warm_up_end, marked.turn_ends, marked.stream_lag) == (2, (1, 4), 3)
    plain = history_files.read(write(tmp_path / "b.json", TWO, warm_up_end=None))
    assert (plain.warm_up_end, plain.turn_ends, plain.stream_lag) == (None, (), 0)


def test_more_events_than_can_be_replayed_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MAX_EVENTS", 3)
    with pytest.raises(history_files.HistoryError, match="more than 3 events"):
        history_files.read(write(tmp_path / "long.json", TWO))
