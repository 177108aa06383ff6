"""Histories that some program has made up, as bench/generators/README.md describes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._replay import history_files, recordings
from frugal_alloc._replay.history import EVENT

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


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no events": ([], {}, "it has no event"),
    "events are no list": ("none", {}, "its events is str, not a list"),
    "event is no list": ([3], {}, "event 0 is 3, not a list of numbers"),
    "event of text": ([["alloc", 0, 1, 0]], {}, "event 0 is .*, not a list of numbers"),
    "event of truths": ([[False, 0, 1, 0]], {}, "event 0 is .*, not a list of numbers"),
    "event of fractions": ([[0, 0, 1.5, 0]], {}, "event 0 is .*, not a list of numbers"),
    "unknown operation": ([[2, 0]], {}, "event 0 is .*, neither an allocation nor a free"),
    "too short": ([[0, 0, 512]], {}, "event 0 is .*, neither an allocation nor a free"),
    "numbers not in order": ([[0, 1, 512, 0]], {}, "event 0 makes allocation 1, and the next is 0"),
    "made twice": ([[0, 0, 512, 0], [0, 0, 512, 0]], {}, "event 1 makes allocation 0, and the next is 1"),
    "no size": ([[0, 0, 0, 0]], {}, "event 0 has 0 bytes"),
    "too large": ([[0, 0, 1 << 60, 0]], {}, "event 0 has .* bytes"),
    "no such stream": ([[0, 0, 512, -1]], {}, "event 0 is on stream -1"),
    "too many streams": ([[0, 0, 512, 1024]], {}, "event 0 is on stream 1024"),
    "freed before made": ([[1, 0]], {}, "event 0 frees allocation 0, which is not allocated then"),
    "freed twice": ([[0, 0, 512, 0], [1, 0], [1, 0]], {}, "event 2 frees allocation 0"),
    "ready at once": ([[0, 0, 512, 0], [1, 0, 1, 1]], {}, "event 1 is ready at 1"),
    "ready after the end": ([[0, 0, 512, 0], [1, 0, 1, 3]], {}, "event 1 is ready at 3"),
    "ready out of order": (
        [[0, 0, 512, 0], [0, 1, 512, 0], [1, 0, 1, 6], [1, 1, 1, 5], [0, 2, 1, 0], [0, 3, 1, 0]],
        {},
        "event 3 is ready at 5",
    ),
    "turns descend": (TWO, {"turn_ends": [2, 1]}, "turn_ends do not ascend"),
    "turn after the end": (TWO, {"turn_ends": [5]}, "'turn_ends' is 5"),
    "turn of text": (TWO, {"turn_ends": ["1"]}, "'turn_ends' is \"1\""),
    "warm-up after the end": (TWO, {"warm_up_end": 5}, "'warm_up_end' is 5"),
    "lag of text": (TWO, {"stream_lag": "3"}, "'stream_lag' is \"3\""),
    "later version": (TWO, {"frugal_alloc_history": 2}, "it is of version 2"),
    "version of text": (TWO, {"frugal_alloc_history": "1"}, 'it is of version "1"'),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_list_gets_one_line_that_names_it_and_status_2(case: str, tmp_path: Path, command: Any) -> None:
    events, others, reason = BAD[case]
    path = write(tmp_path / "bad.json", events, **others)
    with pytest.raises(history_files.HistoryError, match=reason):
        history_files.read(path)
    outcome = command("replay", path)
    outcome.assert_refused(case)
    assert outcome.err.startswith(f"frugal-alloc replay: {path}: ")


def test_more_events_than_can_be_replayed_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MAX_EVENTS", 3)
    with pytest.raises(history_files.HistoryError, match="more than 3 events"):
        history_files.read(write(tmp_path / "long.json", TWO))
