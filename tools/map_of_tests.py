"""Names what `tools/test --quick` runs: the tests that the table of tests/README.md has for a path.

    tools/map_of_tests.py [PATH...]

prints labels for Bazel and paths for pytest, one a line. Without a path it takes those that differ from the commit at
which the branch has left its upstream branch, or main if it has none.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "README.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| .+ \| (?P<sources>.+) \|$", re.MULTILINE)
FILE_OF_TESTS = re.compile(r"tests/\w+/(test_\w+\.py|\w+_test\.cc)")
BASES = ("@{upstream}", "main", "origin/main", "HEAD")  # the first that there is counts


class NothingToRun(Exception):
    """The message is one line."""


@dataclasses.dataclass(frozen=True)
class Folder:
    """A row of the table."""

    name: str
    sources: tuple[str, ...]  # paths, of files or folders, that its tests are about

    def covers(self, path: str) -> bool:
        return any(is_within(path, one) or is_within(one, path) for one in (*self.sources, f"tests/{self.name}"))


def is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def folders() -> list[Folder]:
    rows = ROW.finditer(TABLE.read_text())
    return [Folder(row["name"], tuple(re.findall("`([^`]+)`", row["sources"]))) for row in rows]


def places(path: str) -> list[str]:
    """The folders of tests for a path, or the file of tests that it is; none if no row covers it."""
    if FILE_OF_TESTS.fullmatch(path):
        return [path]
    return [f"tests/{folder.name}" for folder in folders() if folder.covers(path)]


def targets(place: str) -> list[str]:
    """What Bazel and pytest call the tests of a folder or a file, which may be gone or have none."""
    there = ROOT / place
    if there.is_file():
        return [place] if place.endswith(".py") else [f"//{there.parent.relative_to(ROOT)}:{there.stem}"]
    unit = [f"//{place}:all"] if any(there.glob("*_test.cc")) else []
    return unit + ([place] if any(there.glob("test_*.py")) else [])


def relative(path: str) -> str:
    """A path that a user gave, from the checkout's root."""
    absolute = (pathlib.Path.cwd() / path).resolve()
    if not absolute.exists():
        raise NothingToRun(f"there is no {path}")
    return absolute.relative_to(ROOT).as_posix() if absolute.is_relative_to(ROOT) else path


def git(*arguments: str) -> str:
    """What git prints; nothing where it refuses."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout


def changed() -> list[str]:
    """What differs from where the branch began, files that are gone or that git does not know yet among it."""
    for base in BASES:
        if start := git("merge-base", "HEAD", base).strip():
            break
    else:
        raise NothingToRun("git knows no commit to compare with; name a path")
    listed = git("diff", "--name-only", "--no-renames", "--no-relative", "-z", start)
    listed += git("ls-files", "--others", "--exclude-standard", "-z")
    if not listed:
        raise NothingToRun(f"nothing differs from the merge base with {base}; name a path")
    return sorted(listed.rstrip("\0").split("\0"))


def main(*given: str) -> None:
    found = {path: places(path) for path in list(map(relative, given)) or changed()}
    if not_covered := [path for path, some in found.items() if not some]:
        told = f"tests/README.md names no tests for {', '.join(not_covered)}"
        if given:
            raise NothingToRun(f"{told}; leave it out, or run tools/test")
        print(f"tools/test: {told}", file=sys.stderr)
    chosen = {place: names for some in found.values() for place in some if (names := targets(place))}
    # A folder has its files.
    run = sorted(place for place in chosen if place.rpartition("/")[0] not in chosen)
    print(f"tools/test: runs {', '.join(run) or 'no tests'}", file=sys.stderr)
    print(*(name for place in run for name in chosen[place]), sep="\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except NothingToRun as error:
        print(f"tools/test: {error}", file=sys.stderr)
        sys.exit(2)
