"""The wheel for AArch64: FRUGAL_TEST_AARCH64_WHEEL names what tools/wheel --architecture aarch64 has built.

FRUGAL_TEST_WHEEL names the one for x86-64 that it is compared with. tools/aarch64_tests runs it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from frugal_alloc._common import installation

ROOT = Path(__file__).resolve().parents[2]
WHEEL = os.environ.get("FRUGAL_TEST_AARCH64_WHEEL")
OTHER_WHEEL = os.environ.get("FRUGAL_TEST_WHEEL")
pytestmark = pytest.mark.skipif(WHEEL is None, reason="FRUGAL_TEST_AARCH64_WHEEL names no wheel for AArch64")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By their paths in the wheel."""
    folder = tmp_path_factory.mktemp("aarch64")
    with zipfile.ZipFile(WHEEL) as wheel:
        names = [name for name in wheel.namelist() if ".so" in Path(name).name]
        return {name: Path(wheel.extract(name, folder)) for name in names}


@pytest.fixture(scope="module")
def tools() -> Iterator[Path]:
    """The modules of tools/, importable."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield ROOT / "tools"
    sys.path.remove(str(ROOT / "tools"))


def described(library: Path, *options: str) -> str:
    return subprocess.run(["readelf", "-W", *options, library], check=True, capture_output=True, text=True).stdout


def wanted_versions(library: Path) -> dict[str, tuple[int, ...]]:
    """The newest symbol version of each family that the library asks for."""
    newest: dict[str, tuple[int, ...]] = {}
    needs = described(library, "--version-info").partition("Version needs section")[2]
    for family, version in re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)", needs):
        newest[family] = max(newest.get(family, ()), tuple(map(int, version.split("."))))
    return newest


@pytest.mark.skipif(OTHER_WHEEL is None, reason="FRUGAL_TEST_WHEEL names no wheel for x86-64")
def test_holds_the_same_files_as_the_wheel_for_x86_64() -> None:
    with zipfile.ZipFile(WHEEL) as ours, zipfile.ZipFile(OTHER_WHEEL) as other:
        assert set(ours.namelist()) == set(other.namelist())


def test_every_library_is_for_aarch64(libraries: dict[str, Path]) -> None:
    assert libraries
    built_for = {name: installation.architecture_of(path) for name, path in libraries.items()}
    assert {name for name, architecture in built_for.items() if architecture != "aarch64"} == set()


def test_tag_promises_no_older_system_than_the_libraries_need(libraries: dict[str, Path], tools: Path) -> None:
    import wheel_tag

    promised = re.search(r"-py3-none-manylinux_2_(\d+)_aarch64\.whl$", WHEEL)
    assert promised, WHEEL
    minor = int(promised[1])
    runtimes = wheel_tag.POLICIES[max(policy for policy in wheel_tag.POLICIES if policy <= minor)]
    allowed = {"GLIBC": f"2.{minor}"} | runtimes
    for name, path in libraries.items():
        for family, version in wanted_versions(path).items():
            assert version <= tuple(map(int, allowed[family].split("."))), (name, family, version)


def symbols(library: Path, *, undefined: bool) -> set[str]:
    """Names of its dynamic symbols: those that it asks for, or those that it has."""
    found = set()
    for line in described(library, "--dyn-syms").splitlines():
        fields = line.split()
        if len(fields) >= 8 and (fields[6] == "UND") == undefined:
            found.add(fields[7].partition("@")[0])
    return found


def test_libraries_find_their_symbols_in_torch(libraries: dict[str, Path], tools: Path) -> None:
    # C++ gives a function the same name on both architectures, and torch's own have the same functions.
    import torch_sdk

    for version in torch_sdk.versions():
        lib = torch_sdk.torch(version) / "lib"
        there = symbols(lib / "libc10.so", undefined=False) | symbols(lib / "libc10_cuda.so", undefined=False)
        for kind in ("alloc", "replay"):
            path = libraries[f"frugal_alloc/_lib/frugal_{kind}_{torch_sdk.tag(version)}.so"]
            c10 = {name for name in symbols(path, undefined=True) if "c10" in name}
            assert c10
            assert c10 <= there, (path.name, c10 - there)


def test_libraries_load_where_pages_have_64_kib(libraries: dict[str, Path]) -> None:
    for name, path in libraries.items():
        loaded = [line for line in described(path, "--program-headers").splitlines() if line.split()[:1] == ["LOAD"]]
        assert loaded
        assert {int(line.split()[-1], 16) % (64 << 10) for line in loaded} == {0}, name


def test_adapters_need_torchs_libraries_and_the_systems_alone(libraries: dict[str, Path]) -> None:
    adapters = [path for name, path in libraries.items() if "/frugal_alloc_torch" in name]
    assert adapters
    for path in adapters:
        text = described(path, "--dynamic")
        needed = set(re.findall(r"NEEDED.*\[(.+)\]", text))
        system = {"libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "libstdc++.so.6"}
        system.add("ld-linux-aarch64.so.1")
        assert needed - system == {"libc10.so", "libc10_cuda.so"}
        assert not re.search("RPATH|RUNPATH", text)
