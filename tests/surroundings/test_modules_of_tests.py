"""Files of tests that pytest would take for each other are found before it is asked."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import modules_of_tests  # noqa: E402


def lines(root: Path, **files: str) -> list[str]:
    for name, text in files.items():
        path = root / "tests" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return modules_of_tests.found(root)


def test_one_name_in_two_folders_is_told_with_both(tmp_path: Path) -> None:
    (line,) = lines(tmp_path, a__test_stories="", b__test_stories="", b__test_others="")
    assert "tests/a/test_stories.py, tests/b/test_stories.py" in line


def test_each_folder_may_have_a_conftest(tmp_path: Path) -> None:
    assert lines(tmp_path, a__conftest="", b__conftest="") == []


def test_import_of_a_conftest_is_told_with_its_line(tmp_path: Path) -> None:
    found = lines(tmp_path, a__test_one="import os\nfrom conftest import run\n", b__test_two="import conftest\n")
    assert [line.split(" ")[0] for line in found] == ["tests/a/test_one.py:2:", "tests/b/test_two.py:1:"]


def test_none_is_left() -> None:
    assert modules_of_tests.found(ROOT) == []
