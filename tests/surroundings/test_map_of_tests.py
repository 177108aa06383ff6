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
    (tmp_path / "tests" / "README.md").write_text(TABLE)
    monkeypatch.setattr(map_of_tests, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    # A hook of git's has them.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    git("init", "--initial-branch=main")
    git("add", ".")
    git("commit", "--message=All")
    return tmp_path


@pytest.fixture
def run(checkout: Path, capsys: pytest.CaptureFixture[str]):
    """Returns the status, what is run for these paths, and what people are told of it."""

    def run(*paths: str) -> tuple[int, list[str], str]:
        status = map_of_tests.main(*paths)
        captured = capsys.readouterr()
        return status, captured.out.split(), captured.err

    return run


DEEP, WIDE = ["//tests/deep:all"], ["//tests/wide:all", "tests/wide"]


@pytest.mark.parametrize(
    "path, told",
    [
        ("core/births/sites.cc", DEEP + WIDE),
        ("package/report.py", WIDE),
        ("tests/data/one", WIDE),
        ("tests", DEEP + WIDE),
        ("./tests/wide/pages.py", WIDE),
        ("tests/wide/test_page.py", ["tests/wide/test_page.py"]),
        ("tests/wide/page_test.cc", ["//tests/wide:page_test"]),
    ],
)
def test_tests_of_a_path_are_all_of_the_folders_that_the_table_has_for_it(run, path: str, told: list[str]) -> None:
    assert run(path)[:2] == (0, told)


def test_path_that_nothing_is_for_is_named_and_the_others_tests_are_run(run) -> None:
    status, names, told = run("core", "LICENSE")
    assert (status, names) == (0, DEEP + WIDE) and "names no tests for LICENSE\n" in told
    status, names, told = run("gone.cc")
    assert (status, names) == (2, []) and "names no tests for gone.cc\n" in told


def test_without_a_path_it_is_what_the_branch_has_changed_committed_or_not(run, checkout: Path) -> None:
    assert run()[:2] == (2, [])
    git("checkout", "-b", "mine")
    (checkout / "package" / "report.py").unlink()
    git("commit", "--all", "--message=Mine")
    assert run()[1] == WIDE
    (checkout / "core" / "new.cc").touch()
    assert run()[1] == DEEP + WIDE


def test_without_a_path_a_file_of_tests_that_is_gone_is_not_run(run, checkout: Path) -> None:
    (checkout / "tests" / "wide" / "test_page.py").rename(checkout / "tests" / "wide" / "test_pages.py")
    assert run()[1] == ["tests/wide/test_pages.py"]


def test_without_a_path_commits_that_upstream_has_are_left_out(run, checkout: Path) -> None:
    git("checkout", "-b", "theirs")
    git("rm", "package/report.py")
    git("commit", "--message=Theirs")
    git("checkout", "--track", "-b", "mine")
    (checkout / "tests" / "deep" / "more_test.cc").touch()
    assert run()[1] == ["//tests/deep:more_test"]


def tracked() -> list[str]:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).exists()]


def test_table_has_every_folder_once_and_no_other() -> None:
    there = {f"tests/{name.split('/')[1]}" for name in tracked() if name.startswith("tests/") and name.count("/") > 1}
    assert list(map_of_tests.folders()) == sorted(there | {"simulated_gpu/tests"})


def test_what_a_folder_is_for_is_there() -> None:
    assert [one for sources in map_of_tests.folders().values() for one in sources if not (ROOT / one).exists()] == []


def test_folder_without_tests_is_one_that_others_are_for() -> None:
    for folder, sources in map_of_tests.folders().items():
        assert any(map_of_tests.targets(folder)) == bool(sources), folder
        assert any(any(map_of_tests.targets(place)) for place in map_of_tests.places(folder)), folder


def test_every_source_has_tests_to_run_after_a_change_of_it() -> None:
    sources = {
        name
        for name in tracked()
        if not name.startswith(("tests/", "simulated_gpu/tests/", ".")) and name not in WITHOUT_TESTS
    }
    assert {name for name in sources if not map_of_tests.places(name)} == set()
