"""tools/map_of_tests.py: which tests are run for a path; and its table, tests/README.md, has all that is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import map_of_tests  # noqa: E402

TABLE = """
| folder | what it claims | run it after a change of |
| --- | --- | --- |
| `data` | (data) recordings | - |
| `deep` | numbers | `core` |
| `wide` | programs | `core/births`, `package/report.py`, `tests/data` |
"""
FILES = ("deep/sum_test.cc", "wide/page_test.cc", "wide/test_page.py", "wide/test_text.py", "wide/pages.py", "data/one")
# Of no product: who uses them finds them by their tests.
WITHOUT_TESTS = {"LICENSE", "NOTICE", "CITATION.cff", "WORKSPACE", "BUILD"}


def git(*arguments: str) -> None:
    who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of a made-up project, on its branch main, where all is committed."""
    for name in (*(f"tests/{file}" for file in FILES), "core/births/sites.cc", "package/report.py", "LICENSE"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(map_of_tests, "ROOT", tmp_path)
    monkeypatch.setattr(map_of_tests, "TABLE", tmp_path / "tests" / "README.md")
    map_of_tests.TABLE.write_text(TABLE)
    monkeypatch.chdir(tmp_path)
    # A hook of git's has them.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    git("init", "--initial-branch=main")
    git("add", ".")
    git("commit", "--message=All")
    return tmp_path


@pytest.fixture
def said(checkout: Path, capsys: pytest.CaptureFixture[str]):
    """Returns what is run for these paths, and what people are told of it."""

    def run(*paths: str) -> tuple[list[str], str]:
        map_of_tests.main(*paths)
        captured = capsys.readouterr()
        return captured.out.split(), captured.err

    return run


DEEP, WIDE = ["//tests/deep:all"], ["//tests/wide:all", "tests/wide"]


@pytest.mark.parametrize(
    "path, run",
    [
        ("core/births/sites.cc", DEEP + WIDE),
        ("package/report.py", WIDE),
        ("tests/data/one", WIDE),
        ("tests", DEEP + WIDE),
        ("tests/wide/pages.py", WIDE),
        ("tests/wide/test_page.py", ["tests/wide/test_page.py"]),
        ("tests/wide/page_test.cc", ["//tests/wide:page_test"]),
    ],
)
def test_tests_of_a_path_are_all_of_the_folders_that_the_table_has_for_it(said, path: str, run: list[str]) -> None:
    assert said(path)[0] == run


@pytest.mark.parametrize("path, told", [("LICENSE", "names no tests for LICENSE"), ("gone.cc", "there is no gone.cc")])
def test_path_that_nothing_is_for_is_refused(said, path: str, told: str) -> None:
    with pytest.raises(map_of_tests.NothingToRun, match=told):
        said("core", path)


def test_without_a_path_it_is_what_the_branch_has_changed_committed_or_not(said, checkout: Path) -> None:
    git("checkout", "-b", "mine")
    (checkout / "package" / "report.py").unlink()
    git("commit", "--all", "--message=Mine")
    assert said()[0] == WIDE
    (checkout / "core" / "new.cc").touch()
    assert said()[0] == DEEP + WIDE


def test_without_a_path_a_file_of_tests_that_is_gone_is_not_run(said, checkout: Path) -> None:
    (checkout / "tests" / "wide" / "test_page.py").rename(checkout / "tests" / "wide" / "test_pages.py")
    assert said()[0] == ["tests/wide/test_pages.py"]


def test_without_a_path_commits_that_upstream_has_are_left_out(said, checkout: Path) -> None:
    git("checkout", "-b", "theirs")
    git("rm", "package/report.py")
    git("commit", "--message=Theirs")
    git("checkout", "--track", "-b", "mine")
    (checkout / "tests" / "deep" / "more_test.cc").touch()
    assert said()[0] == ["//tests/deep:more_test"]


def test_without_a_path_and_a_change_a_path_is_asked_for(said) -> None:
    with pytest.raises(map_of_tests.NothingToRun, match="nothing differs from the merge base with main; name a path"):
        said()


# ----- the table -----


def tracked() -> list[str]:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).exists()]


def test_table_has_every_folder_once_and_no_other() -> None:
    there = {name.split("/")[1] for name in tracked() if name.startswith("tests/") and name.count("/") > 1}
    assert [folder.name for folder in map_of_tests.folders()] == sorted(there)


def test_what_a_folder_is_for_is_there() -> None:
    missing = {source for folder in map_of_tests.folders() for source in folder.sources if not (ROOT / source).exists()}
    assert missing == set()


def test_folder_without_tests_is_one_that_others_are_for() -> None:
    for folder in map_of_tests.folders():
        assert bool(map_of_tests.targets(f"tests/{folder.name}")) == bool(folder.sources), folder.name
        assert any(map_of_tests.targets(place) for place in map_of_tests.places(f"tests/{folder.name}")), folder.name


def test_every_source_has_tests_to_run_after_a_change_of_it() -> None:
    sources = {name for name in tracked() if not name.startswith(("tests/", ".")) and name not in WITHOUT_TESTS}
    assert {name for name in sources if not map_of_tests.places(name)} == set()
