"""What the agent has left of a process is read as it was written, and refused in one line where it is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._fit import process_record, runs
from frugal_alloc._fit.places import Place

RECORD: dict[str, Any] = {
    "process": 7,
    "rank": -1,
    "program": "train.py",
    "steps": 3,
    "is_half": False,
    "ended": "steps",
    "error": "",
    "advice": [["a smaller batch", 1 << 20, True]],
    "texts": ["forward"],
    "places": {
        "1": {"where": ["train.py", 7, "step"], "traits": ["loss"], "node": "", "forward": 0},
        "2": {"where": None, "traits": [], "node": "MulBackward0", "forward": 1},
    },
    "counted": {"0": [5, 9]},
    "guesses": [],
    "not_simulated": ["cuStreamWaitValue32"],
}


def written(folder: Path, **changes: Any) -> Path:
    (folder / f"{changes.get('process', 7)}.json").write_text(json.dumps(RECORD | changes))
    return folder


def test_what_was_written_is_read(tmp_path: Path) -> None:
    (record,) = process_record.read_all(written(tmp_path))
    assert record.places == {1: Place(("train.py", 7, "step"), ("loss",), "", 0), 2: Place(None, (), "MulBackward0", 1)}
    assert (record.counted, record.advice) == ({0: (5, 9)}, (("a smaller batch", 1 << 20, True),))
    assert record.journal == tmp_path / "7.journal"


def test_processes_come_in_the_order_of_their_ranks(tmp_path: Path) -> None:
    written(tmp_path, process=8, rank=1)
    written(tmp_path, process=9, rank=0)
    assert [record.process for record in process_record.read_all(tmp_path)] == [9, 8]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": "3"}, r'steps: a whole number is wanted, not "3"'),
        ({"places": {"x": RECORD["places"]["1"]}}, r'places: a whole number for a key is wanted, not "x"'),
        ({"places": {"1": {}}}, r'places\["1"\]: where is missing'),
        ({"counted": {"0": [5]}}, r'counted\["0"\]: a list of 2 values is wanted'),
    ],
)
def test_a_damaged_record_is_refused_in_one_line(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(runs.NotFollowed, match=said) as refused:
        runs._read(written(tmp_path, **changes), 0, None, None)
    assert "\n" not in str(refused.value)
