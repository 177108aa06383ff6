"""Each library that is packaged loads on the oldest systems that torch is for, the simulated GPU's among them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import frugal_alloc
import pytest
from old_systems import NEWEST_SYMBOLS, ON_DEBIAN_12

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import wheel_tag  # noqa: E402

LIBRARIES = sorted((Path(frugal_alloc.__file__).parent / "_lib").rglob("*.so*"))
HAVE_MOVED = ("dlsym@GLIBC_2.2.5", "pthread_once@GLIBC_2.2.5")


def undefined(library: Path) -> list[str]:
    """Such as "dlsym@GLIBC_2.2.5"."""
    done = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True)
    return [line.split()[-1] for line in done.stdout.splitlines()]


def too_new(symbol: str) -> bool:
    found = re.search(r"@(GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)$", symbol)
    return found is not None and tuple(map(int, found[2].split("."))) > NEWEST_SYMBOLS[found[1]]


def test_of_a_symbol_the_version_decides() -> None:
    assert too_new("dlsym@GLIBC_2.34") and too_new("_ZNSt10filesystem@GLIBCXX_3.4.26")
    assert not too_new("dlsym@GLIBC_2.2.5") and not too_new("memfd_create@GLIBC_2.27") and not too_new("cudaMalloc")


@ON_DEBIAN_12
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_library_asks_for_nothing_newer(library: Path) -> None:
    assert [symbol for symbol in undefined(library) if too_new(symbol)] == []


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_library_names_what_its_functions_were_in_before_they_moved(library: Path) -> None:
    text = subprocess.run(["objdump", "-p", library], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"NEEDED +(\S+)", text))
    symbols = undefined(library)
    for symbol, before in zip(HAVE_MOVED, ("libdl.so.2", "libpthread.so.0"), strict=True):
        assert symbol not in symbols or before in needed


@ON_DEBIAN_12
def test_tag_of_all_libraries_is_that_of_torch() -> None:
    files = {path.name: path.read_bytes() for path in LIBRARIES}
    assert wheel_tag.tag(files, "x86_64") == "py3-none-manylinux_2_28_x86_64"
