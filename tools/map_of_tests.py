"""Names what `tools/test --quick` runs: the tests that the table of tests/README.md has for a path.

    tools/map_of_tests.py [PATH...]

prints labels for Bazel and paths for pytest, one a line. Without a path it takes those that differ from the commit at
which the branch has left its upstream branch, or main if it has none.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| `(\w+|simulated_gpu/tests)` \| .+ \| (.+) \|$", re.MULTILINE)
FILE_OF_TESTS = re.compile(r"(tests/\w+|simulated_gpu/tests)/(test_\w+\.py|\w+_test\.cc)")


def folders() -> dict[str, list[str]]:
    """By folder of tests, the paths that the table has it run for."""
    rows = ROW.findall((ROOT / "tests" / "README.md").read_text())
    return {name if "/" in name else f"tests/{name}": re.findall("`([^`]+)`", sources) for name, sources in rows}


def places(path: str) -> list[str]:
    """The folders of tests for a path, or the file of tests that it is; none if no row has it."""

    def is_for(sources: list[str]) -> bool:
        return any(f"{path}/".startswith(f"{one}/") or f"{one}/".startswith(f"{path}/") for one in sources)

    is_file = FILE_OF_TESTS.fullmatch(path)
    return [path] if is_file else [folder for folder, sources in folders().items() if is_for([folder, *sources])]


def targets(place: str) -> Iterator[str]:
    """What Bazel and pytest call the tests of a folder or a file, which may be gone or have none."""
    there = ROOT / place
    if any(there.glob("*_test.cc")):
        yield f"//{place}:all"
    if there.suffix == ".cc" and there.exists():
        yield f"//{there.parent.relative_to(ROOT)}:{there.stem}"
    if any(there.glob("test_*.py")) or (there.suffix == ".py" and there.exists()):
        yield place


def git(*arguments: str) -> str:
    """What git prints; nothing where it refuses."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout


def changed() -> list[str]:
    """What differs from where the branch began, files that are gone or that git does not know yet among it."""
    bases = (git("merge-base", "HEAD", one).strip() for one in ("@{upstream}", "main", "origin/main", "HEAD"))
    listed = git("diff", "--name-only", "--no-renames", "--no-relative", "-z", next(filter(None, bases), "HEAD"))
    return sorted(filter(None, (listed + git("ls-files", "--others", "--exclude-standard", "-z")).split("\0")))


def main(*given: str) -> int:
    paths = [os.path.relpath(ROOT / path, ROOT) for path in given] or changed()
    found = {path: [name for place in places(path) for name in targets(place)] for path in paths}
    if without := [path for path, names in found.items() if not names]:
        print(f"tools/test: tests/README.md names no tests for {', '.join(without)}", file=sys.stderr)
    run = sorted({name for names in found.values() for name in names})
    print(*run, sep="\n", end="\n" if run else "")
    print(f"tools/test: runs {' '.join(run) or 'nothing; name a path, or run tools/test'}", file=sys.stderr)
    return 0 if run else 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
