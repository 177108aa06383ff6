"""tools/map_of_tests.py: which tests there are for a path, and which of them are quick enough."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import map_of_tests  # noqa: E402

TABLE = """
| folder | claim | run it after a change of | seconds |
| --- | --- | --- | --- |
| `deep` | numbers | `core` | |
| `wide` | programs | `core/births`, `package/report.py` | 7 |
| `data` | (data) recordings | - | |
"""
FILES = ("deep/sum_test.cc", "deep/slow_test.cc", "wide/test_page.py", "wide/test_text.py")
SECONDS = {"tests/deep/sum_test.cc": 0.1, "tests/deep/slow_test.cc": 40, "tests/wide/test_page.py": 6.6}


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*(f"tests/{file}" for file in FILES), "core/births/sites.cc", "package/report.py", "LICENSE"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "tests" / "data").mkdir()
    monkeypatch.setattr(map_of_tests, "ROOT", tmp_path)
    monkeypatch.setattr(map_of_tests, "TABLE", tmp_path / "tests" / "README.md")
    monkeypatch.setattr(map_of_tests, "DURATIONS", tmp_path / "tests" / "durations.json")
    map_of_tests.TABLE.write_text(TABLE)
    map_of_tests.DURATIONS.write_text(json.dumps(SECONDS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    map_of_tests.main(*arguments)
    return capsys.readouterr().out.split("\n")[:-1]


@pytest.mark.parametrize(
    "path, folders",
    [
        ("core", {"deep", "wide"}),
        ("core/births/sites.cc", {"deep", "wide"}),
        ("package/report.py", {"wide"}),
        ("tests/wide", {"wide"}),
        ("tests/data", set()),
    ],
)
def test_tests_of_a_path_are_those_of_the_folders_that_the_table_has_for_it(path: str, folders: set[str]) -> None:
    assert {file.split("/")[1] for file in map_of_tests.for_paths([path])} == folders


def test_without_a_path_there_are_all() -> None:
    assert sorted(map_of_tests.for_paths([])) == sorted(f"tests/{file}" for file in FILES)


@pytest.mark.parametrize("path, told", [("LICENSE", "names no tests for LICENSE"), ("gone.cc", "there is no gone.cc")])
def test_path_that_nothing_is_for_is_refused(path: str, told: str) -> None:
    with pytest.raises(map_of_tests.NotCovered, match=told):
        map_of_tests.for_paths([path])


def test_longest_are_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "unit", "core") == ["//tests/deep:sum_test"]
    assert said(capsys, "python", "core") == ["tests/wide/test_page.py", "tests/wide/test_text.py"]
    assert said(capsys, "left-out", "core") == ["tests/deep/slow_test.cc (40 s)"]


def test_file_that_is_named_is_run_however_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "unit", "tests/deep/slow_test.cc") == ["//tests/deep:slow_test"]
    assert said(capsys, "left-out", "tests/deep/slow_test.cc") == [""]


def test_recording_keeps_what_is_there_and_totals_stand_in_the_table() -> None:
    (map_of_tests.ROOT / "tests" / "wide" / "test_page.py").unlink()
    map_of_tests.record({"tests/deep/sum_test.cc": 2.0})
    assert json.loads(map_of_tests.DURATIONS.read_text()) == {
        "tests/deep/slow_test.cc": 40,
        "tests/deep/sum_test.cc": 2.0,
    }
    # Of `wide` a file is not on record.
    assert [folder.seconds for folder in map_of_tests.folders()] == [42, None, 0]
