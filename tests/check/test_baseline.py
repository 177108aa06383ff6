"""The file: what is written is read, changes of it are small, and what is none is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checked_project import figures, line
from frugal_alloc._planning.check import baseline
from frugal_alloc._planning.check.baseline import Baseline, BaselineError, Figures, Setting

SETTING = Setting(memory=16 << 30, gpus=1, values="cpu", allocator="native")
RECORDS = {
    "b": figures(7, released=5, gpu=9, waste=2, leaked=2, slack=3, calls={"malloc": 2}, leaks=(line("a.py", 3, 2),)),
    "a": figures(4, lines=(line("a.py", 1, 3, through="torch/x.py f"), line("a.py", 2, 1))),
    "unknown": Figures(gpu=0, waste=0, leaked=0),
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.json")
    baseline.write(path, Baseline.of(SETTING, "2.11.0", RECORDS))
    assert baseline.read(path) == Baseline.of(SETTING, "2.11.0", RECORDS)
    assert list(tmp_path.iterdir()) == [tmp_path / "memory.json"]


def test_a_file_is_sorted_and_has_a_line_for_each_line() -> None:
    text = baseline.to_text(Baseline.of(SETTING, "2.11.0", RECORDS))
    assert text == baseline.to_text(Baseline.of(SETTING, "2.11.0", dict(reversed(RECORDS.items()))))
    assert list(json.loads(text)["records"]) == ["a", "b", "unknown"]
    assert '    ["a.py", "forward", 2, "text of a.py:2", 1]\n' in text


def test_one_that_is_empty_is_one(tmp_path: Path) -> None:
    (tmp_path / "m").write_text(baseline.to_text(Baseline.of(SETTING, "2.11.0", {})))
    assert baseline.read(str(tmp_path / "m")).records == {}


def test_numbers_of_lines_alone_leave_the_old() -> None:
    old = figures(4, lines=(line("a.py", 1, 4, "x"),))
    assert baseline.renewed(old, figures(4, lines=(line("a.py", 9, 4, "x"),))) is old
    new = figures(5, lines=(line("a.py", 9, 5, "x"),))
    assert baseline.renewed(old, new) is new
    assert baseline.renewed(None, new) is new


GOOD = json.loads(baseline.to_text(Baseline.of(SETTING, "2.11.0", RECORDS)))


def with_record(record: dict[str, Any]) -> str:
    return json.dumps({**GOOD, "records": {"a": record}})


@pytest.mark.parametrize(
    "content, said",
    [
        ("[]", "is no baseline"),
        (json.dumps({**GOOD, "frugal_alloc_check": 2}), "is a baseline of version 2"),
        (json.dumps({**GOOD, "frugal_alloc_check": True}), "is no baseline"),
        (json.dumps({**GOOD, "memory": "x"}), r'is damaged \(memory: a whole number is wanted, not "x"\)'),
        (json.dumps({key: value for key, value in GOOD.items() if key != "torch"}), "torch is missing"),
        (with_record({"peak": 1.5}), r'is damaged \(records\["a"\].peak: a whole number is wanted, not 1.5'),
        (with_record({"leaks": [["a.py", "f", 1, "x", 3, None]]}), r'records\["a"\].leaks\[0\]\[5\]: a text is wanted'),
    ],
)
def test_what_is_none_is_refused_in_one_line(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "memory.json").write_text(content)
    with pytest.raises(BaselineError, match=said) as refused:
        baseline.read(str(tmp_path / "memory.json"))
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="--update"):
        baseline.read(str(tmp_path / "memory.json"))
    with pytest.raises(BaselineError, match="folder"):
        baseline.read(str(tmp_path))


def test_somebody_elses_file_is_known(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    assert not baseline.is_foreign(str(path))
    path.write_text("")
    assert not baseline.is_foreign(str(path))
    path.write_text('{"name": "package"}')
    assert baseline.is_foreign(str(path))
    path.write_text('{\n<<<<<<< HEAD\n "frugal_alloc_check": 1')
    assert not baseline.is_foreign(str(path))
    assert baseline.is_foreign(str(tmp_path))
