"""The tests of PyTorch's that lists name, and where their files are found."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_LISTS = ("accept_native.txt", "accept_values.txt", "accept_multigpu.txt", "accept_v26.txt")
MULTI_GPU_FILE = "test_cuda_multigpu.py"
SOURCES = (
    "get them from PyTorch's repository, e.g. git show 000e43cd:test/test_cuda.py > DIR/main/test_cuda.py and "
    "git show v2.4.1:test/test_cuda.py > DIR/v24/test_cuda.py"
)


class BadInput(Exception):
    """The message is one line that says what to do."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a test runs under."""

    values: bool = False
    gpus: int = 1
    expandable: bool = False
    real_gpu_only: bool = False


@dataclasses.dataclass(frozen=True)
class Test:
    list_name: str
    file: str  # as the list names it
    name: str
    setting: Setting

    def __str__(self) -> str:
        return f"{self.file} {self.name}"


def read_list(path: Path) -> list[Test]:
    """The tests that a list names, with what it says they need."""
    stem = path.stem
    values = "values" in stem or "compute" in stem
    tests = []
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the list {path}: {error}") from None
    for number, line in enumerate(lines, 1):
        text, _, comment = line.partition("#")
        words = text.split()
        if not words:
            values = values or re.search("values|compute", comment) is not None
            continue
        *files, name = words
        if len(files) > 1 or not re.fullmatch(r"\w+\.\w+", name):
            raise BadInput(f"{path}:{number}: not FILE CLASS.TEST: {line.strip()}")
        setting = Setting(values, 2 if "multigpu" in stem else 1, "expandable" in stem, "needs_gpu" in stem)
        tests.append(Test(stem, files[0] if files else MULTI_GPU_FILE, name, setting))
    return tests


def find_lists(folders: Sequence[Path], named: Sequence[Path]) -> list[Path]:
    if missing := [path for path in named if not path.is_file()]:
        raise BadInput(f"there is no list {missing[0]}")
    places = [place for folder in folders for place in (folder, folder / "lists", folder / "acceptance")]
    places.append(ROOT.parent / "shared" / "acceptance")
    found = [_first(place / name for place in places) for name in DEFAULT_LISTS]
    if lists := list(named) or list(filter(None, found)):
        return lists
    looked = ", ".join(map(str, places))
    raise BadInput(f"no list found ({', '.join(DEFAULT_LISTS)}) in {looked}; name one with --list")


def find_sources(folders: Sequence[Path], tests: Sequence[Test]) -> dict[str, Path]:
    """Where each test file that the tests name lies; those that are not there are left out, but not all."""
    found = {}
    for file in sorted({test.file for test in tests}):
        tree, _, name = file.rpartition("/")
        inside = (tree, f"{tree}/test") if tree else ("main", "main/test", "v24", "v24/test", "", "test")
        found[file] = _first((folder / place / name).resolve() for folder in folders for place in inside)
    missing, looked = [file for file, path in found.items() if path is None], ", ".join(map(str, folders))
    if len(missing) == len(found):
        raise BadInput(f"no {' and no '.join(missing)} in {looked}; {SOURCES}")
    for file in missing:
        print(f"tools/acceptance: there is no {file} in {looked}", file=sys.stderr)
    return {file: path for file, path in found.items() if path is not None}


def _first(paths: Iterable[Path]) -> Path | None:
    return next(filter(Path.is_file, paths), None)


def read_exceptions(path: Path) -> dict[str, str]:
    """Why a test may fail, by "FILE CLASS.TEST", as a file like exceptions.txt says."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return {name: reason for name, _, reason in (line.partition(": ") for line in lines)}
