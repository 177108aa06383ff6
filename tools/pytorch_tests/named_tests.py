"""The tests of PyTorch's that lists name, and where their files are found."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Sequence
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
    if named:
        for path in named:
            if not path.is_file():
                raise BadInput(f"there is no list {path}")
        return list(named)
    places = [place for folder in folders for place in (folder, folder / "lists", folder / "acceptance")]
    places.append(ROOT.parent / "shared" / "acceptance")
    found = []
    for name in DEFAULT_LISTS:
        path = next((place / name for place in places if (place / name).is_file()), None)
        if path is not None:
            found.append(path)
    if not found:
        looked = ", ".join(str(place) for place in places)
        raise BadInput(f"no list found ({', '.join(DEFAULT_LISTS)}) in {looked}; name one with --list")
    return found


def find_sources(folders: Sequence[Path], tests: Sequence[Test]) -> dict[str, Path]:
    """Where each test file that the tests name lies; those that are not there are left out, but not all."""
    found, missing = {}, []
    for file in sorted({test.file for test in tests}):
        tree, _, name = file.rpartition("/")
        inside = (tree, f"{tree}/test") if tree else ("main", "main/test", "v24", "v24/test", "", "test")
        places = [folder / place / name for folder in folders for place in inside]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            missing.append(file)
        else:
            found[file] = path.resolve()
    if not found:
        raise BadInput(f"no {' and no '.join(missing)} in {', '.join(map(str, folders))}; {SOURCES}")
    for file in missing:
        print(f"tools/acceptance: there is no {file} in {', '.join(map(str, folders))}", file=sys.stderr)
    return found


def read_exceptions(path: Path) -> dict[str, str]:
    """Why a test may fail, by "FILE CLASS.TEST", as a file like exceptions.txt says."""
    reasons = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(":")
            reasons[" ".join(name.split())] = reason.strip()
    return reasons
