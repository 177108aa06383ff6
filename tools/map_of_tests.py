"""Which tests to run while working on what: the table of tests/README.md, and what each file takes.

    tools/map_of_tests.py unit|python|left-out [PATH...]   what `tools/test --quick PATH...` runs, or leaves out
    tools/map_of_tests.py record                           measures the unit tests, and renews the table's last column

Times are seconds of CPU (tests/durations.json), so that a busy machine measures about the same. `pytest
--record-durations` measures the Python tests.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "README.md"
DURATIONS = ROOT / "tests" / "durations.json"
# Of CPU, on two cores: with format, build and start, two minutes.
MOST_UNIT_SECONDS = 30
MOST_PYTHON_SECONDS = 90
# Of a file that is not on record: more than most take, so that it is left out rather than waited for.
UNKNOWN_SECONDS = 20
ROW = re.compile(r"\| `(?P<folder>\w+)` \| (?P<claim>.+?) \| (?P<sources>.+?) \| (?P<seconds>\d*) ?\|")


class NotCovered(Exception):
    """No folder of tests is for a path; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Folder:
    """A line of the table."""

    name: str
    sources: tuple[str, ...]  # paths, of files or folders, that its tests are about
    seconds: int | None  # None: its files are not all on record

    def covers(self, path: str) -> bool:
        return any(is_within(path, one) or is_within(one, path) for one in (*self.sources, f"tests/{self.name}"))


@dataclasses.dataclass(frozen=True)
class Choice:
    run: list[str]
    left_out: list[tuple[float, str]]


def is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def folders() -> list[Folder]:
    rows = ROW.finditer(TABLE.read_text())
    found = []
    for row in rows:
        seconds = int(row["seconds"]) if row["seconds"] else None
        found.append(Folder(row["folder"], tuple(re.findall("`([^`]+)`", row["sources"])), seconds))
    return found


def durations() -> dict[str, float]:
    return json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}


def files_of(folder: str) -> list[str]:
    """The files of tests of a folder, from the checkout's root."""
    found = [path for pattern in ("test_*.py", "*_test.cc") for path in (ROOT / "tests" / folder).glob(pattern)]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def relative(path: str) -> str:
    """A path that a user gave, from the checkout's root."""
    absolute = (pathlib.Path.cwd() / path).resolve()
    if not absolute.exists():
        raise NotCovered(f"there is no {path}")
    return absolute.relative_to(ROOT).as_posix() if absolute.is_relative_to(ROOT) else path


def for_paths(paths: Iterable[str]) -> list[str]:
    """The files of tests for these paths; all, if there are none.

    Raises:
        NotCovered: the table has nothing for one of them.
    """
    every = folders()
    paths = list(map(relative, paths))
    if not paths:
        return [file for folder in every for file in files_of(folder.name)]
    chosen: dict[str, None] = {}
    for path in paths:
        here = [folder for folder in every if folder.covers(path)]
        if not here:
            raise NotCovered(f"tests/README.md names no tests for {path}; leave it out, or run tools/test")
        # What is one file of tests, or a folder of them, is nothing but itself.
        files = [file for folder in here for file in files_of(folder.name)]
        own = [file for file in files if is_within(file, path)] if path.startswith("tests/") else []
        chosen |= dict.fromkeys(own or files)
    return list(chosen)


def choose(files: Iterable[str], most_seconds: float, named: Iterable[str] = ()) -> Choice:
    """The quickest of these files, for so many seconds altogether, and those that are named, whatever they take."""
    known = durations()
    run, left_out, total = [], [], 0.0
    for seconds, file in sorted((known.get(file, UNKNOWN_SECONDS), file) for file in files):
        if file in named:
            run.append(file)
        elif total + seconds <= most_seconds:
            total += seconds
            run.append(file)
        else:
            left_out.append((seconds, file))
    return Choice(run, left_out)


def label(file: str) -> str:
    """Bazel's name for a unit test."""
    path = pathlib.PurePosixPath(file)
    return f"//{path.parent}:{path.stem}"


# ----- what they take -----


def measure_unit_tests() -> dict[str, float]:
    """Has Bazel run each, and reads in its log what bash says that it took."""
    files = sorted(file for folder in folders() for file in files_of(folder.name) if file.endswith(".cc"))
    options = ["--noshow_progress", "--ui_event_filters=-info", "--show_result=0", "--nocache_test_results"]
    # A shell's `times` ends with the seconds of its children: user, system.
    timed = """bash -c '"$0" "$@"; status=$?; times; exit $status'"""
    bazel = shlex.split(os.environ.get("BAZEL", "bazel"))
    subprocess.run([*bazel, "test", *options, f"--run_under={timed}", *map(label, files)], cwd=ROOT, check=True)
    taken = {}
    for file in files:
        log = ROOT / ".bazel" / "testlogs" / file.removesuffix(".cc") / "test.log"
        parts = re.findall(r"(\d+)m([\d.]+)s", log.read_text().splitlines()[-1])
        taken[file] = round(sum(60 * int(minutes) + float(seconds) for minutes, seconds in parts), 1)
    return taken


def totals() -> dict[str, int]:
    """Seconds by folder, of the files that are on record."""
    exact = {folder.name: 0.0 for folder in folders()}
    for file, seconds in durations().items():
        exact[file.split("/")[1]] += seconds
    return {name: round(seconds) for name, seconds in exact.items()}


def record(unit_tests: dict[str, float]) -> None:
    """Writes down what these took, and in the table what the folders take of which all files are on record."""
    known = durations() | unit_tests
    kept = {file: seconds for file, seconds in sorted(known.items()) if (ROOT / file).exists()}
    DURATIONS.write_text(json.dumps(kept, indent=2) + "\n")
    seconds = totals()

    def renewed(row: re.Match[str]) -> str:
        folder = row["folder"]
        figure = f"{seconds[folder]} " if set(files_of(folder)) <= set(kept) else ""
        return f"{row[0][: row.start('seconds') - row.start()]}{figure}|"

    TABLE.write_text(ROW.sub(renewed, TABLE.read_text()))


def main(what: str, *paths: str) -> None:
    if what == "record":
        record(measure_unit_tests())
        return
    files = for_paths(paths)
    named = set(map(relative, paths))
    unit = choose((file for file in files if file.endswith(".cc")), MOST_UNIT_SECONDS, named)
    python = choose((file for file in files if file.endswith(".py")), MOST_PYTHON_SECONDS, named)
    if what == "unit":
        print(*map(label, unit.run), sep="\n")
    elif what == "python":
        print(*python.run, sep="\n")
    else:
        print(*(f"{file} ({seconds:.0f} s)" for seconds, file in unit.left_out + python.left_out), sep="\n")


if __name__ == "__main__":
    if sys.argv[1:2] not in (["unit"], ["python"], ["left-out"], ["record"]):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except NotCovered as error:
        print(f"tools/test: {error}", file=sys.stderr)
        sys.exit(2)
