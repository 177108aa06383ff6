"""tests/README.md is a map of the tests: each folder is in it once, and what it names is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import map_of_tests  # noqa: E402

# Of no product: who uses them finds them by their tests.
WITHOUT_TESTS = {"LICENSE", "NOTICE", "CITATION.cff", "WORKSPACE", "BUILD"}


def tracked() -> list[str]:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).exists()]


def test_map_has_every_folder_once_and_no_other() -> None:
    there = {name.split("/")[1] for name in tracked() if name.startswith("tests/") and name.count("/") > 1}
    named = [folder.name for folder in map_of_tests.folders()]
    assert named == sorted(there)


def test_what_a_folder_is_for_is_there() -> None:
    missing = {source for folder in map_of_tests.folders() for source in folder.sources if not (ROOT / source).exists()}
    assert missing == set()


def test_folder_without_tests_is_one_that_others_share() -> None:
    for folder in map_of_tests.folders():
        assert bool(map_of_tests.files_of(folder.name)) == bool(folder.sources), folder.name


def test_every_source_has_tests_to_run_after_a_change_of_it() -> None:
    sources = {name for name in tracked() if not name.startswith(("tests/", ".")) and name not in WITHOUT_TESTS}
    folders = map_of_tests.folders()
    assert {name for name in sources if not any(folder.covers(name) for folder in folders)} == set()


def test_seconds_in_the_map_are_those_on_record() -> None:
    given = {folder.name: folder.seconds for folder in map_of_tests.folders() if folder.seconds is not None}
    totals = map_of_tests.totals()
    assert given == {name: totals[name] for name in given}
