"""What building from source says on a machine that it cannot build on: one line, with what to do."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import abseil  # noqa: E402
import build_backend  # noqa: E402
import build_libraries  # noqa: E402

HOOKS = {
    # pip asks this first.
    "ask": lambda folder: build_backend.get_requires_for_build_wheel(),
    "build": lambda folder: build_backend.build_wheel(str(folder)),
}
Patch = pytest.MonkeyPatch
each_hook = pytest.mark.parametrize("hook", HOOKS)


@pytest.fixture(autouse=True)
def unpacked(tmp_path: Path, monkeypatch: Patch) -> Path:
    """An sdist where there are no Abseil, no Bazel, no git and no torch; nothing is fetched for what is refused."""
    monkeypatch.setattr(build_libraries, "ROOT", tmp_path)
    monkeypatch.setattr(build_backend, "ROOT", tmp_path)
    monkeypatch.setattr(build_libraries, "BAZEL", ["no-such-bazel"])
    monkeypatch.setattr(build_libraries, "beside", lambda: None)
    monkeypatch.setattr(build_libraries.torch_sdk, "torch", pytest.fail)
    monkeypatch.delenv("FRUGAL_ABSEIL", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path


@pytest.fixture
def with_all(monkeypatch: Patch) -> None:
    """On x86-64, with all that building needs."""
    pretend_machine("x86_64", monkeypatch)
    monkeypatch.setattr(build_libraries, "has_bazel", lambda: True)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


def pretend_machine(machine: str, monkeypatch: Patch) -> None:
    answer = os.uname_result([*os.uname()[:4], machine])
    monkeypatch.setattr(os, "uname", lambda: answer)


def pretend_library(told: str | None, monkeypatch: Patch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: told)


def refused(call: Callable[[], object]) -> str:
    """The one line that it ends with, which Python prints before it exits with status 1."""
    with pytest.raises((SystemExit, build_libraries.BuildError)) as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line and len(line) > 10
    assert line.startswith("frugal_alloc: ") or not isinstance(caught.value, SystemExit)
    return line


def made_archive(folder: Path, monkeypatch: Patch) -> Path:
    """One with Abseil's name alone in it, which is taken for the known one."""
    packed = folder / "abseil.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        entry = tarfile.TarInfo("abseil-1/absl")
        entry.type = tarfile.DIRTYPE
        entry.mode = 0o755
        archive.addfile(entry)
    known = hashlib.sha256(packed.read_bytes()).hexdigest()
    monkeypatch.setattr(abseil, "ARCHIVES", {(folder / "nowhere.tar.gz").as_uri(): known})
    return packed


def test_abseil_comes_from_the_file_that_is_named(unpacked: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("FRUGAL_ABSEIL", str(made_archive(unpacked, monkeypatch)))
    assert (abseil.source(unpacked) / "absl").is_dir()
    monkeypatch.setenv("FRUGAL_ABSEIL", "")
    assert abseil.source(unpacked) == unpacked / ".deps" / "abseil"


def test_abseil_of_another_hash_is_refused_and_leaves_nothing(unpacked: Path, monkeypatch: Patch) -> None:
    packed = made_archive(unpacked, monkeypatch)
    packed.write_bytes(packed.read_bytes() + b"more")
    monkeypatch.setenv("FRUGAL_ABSEIL", str(packed))
    assert "SHA-256" in refused(lambda: HOOKS["build"](unpacked)) and not (unpacked / ".deps").exists()


def test_where_abseil_cannot_be_had_it_says_where_to_put_it(unpacked: Path, monkeypatch: Patch) -> None:
    made_archive(unpacked, monkeypatch)
    line = refused(lambda: HOOKS["build"](unpacked))
    assert "FRUGAL_ABSEIL" in line and "wheel" in line and "nowhere.tar.gz" in line


def test_folder_without_abseil_is_named(unpacked: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("FRUGAL_ABSEIL", str(unpacked))
    assert str(unpacked) in refused(lambda: HOOKS["build"](unpacked))


@each_hook
def test_without_a_compiler_it_says_what_to_install(unpacked: Path, monkeypatch: Patch, hook: str) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    line = refused(lambda: HOOKS[hook](unpacked))
    assert "no C++ compiler" in line and "g++" in line and "wheel" in line


@pytest.mark.parametrize(
    "here, brought",
    [
        ("bazel", []),
        ("cmake make", []),
        ("cmake ninja", []),
        ("cmake", ["ninja"]),
        ("make", ["cmake"]),
        ("", ["cmake", "ninja"]),
    ],
)
def test_pip_is_asked_for_what_cmake_needs_and_this_machine_lacks(
    monkeypatch: Patch, here: str, brought: list[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name if name in here.split() else None)
    monkeypatch.setattr(build_libraries, "check_machine", lambda: None)
    monkeypatch.setattr(build_libraries, "has_bazel", lambda: "bazel" in here)
    assert build_backend.get_requires_for_build_wheel() == brought


@pytest.mark.parametrize(
    "pretend, named",
    [
        (lambda patch: pretend_machine("riscv64", patch), "riscv64"),
        (lambda patch: pretend_library("glibc 2.17", patch), "glibc 2.17"),
    ],
)
@each_hook
def test_machine_that_there_can_be_no_library_for_is_named(
    unpacked: Path, monkeypatch: Patch, pretend: Callable[[Patch], None], named: str, hook: str
) -> None:
    pretend(monkeypatch)
    assert named in refused(lambda: HOOKS[hook](unpacked))


def test_old_glibc_is_no_hindrance_where_there_is_a_torch_for_it(unpacked: Path, monkeypatch: Patch) -> None:
    pretend_library("glibc 2.17", monkeypatch)
    monkeypatch.setattr(build_libraries, "beside", lambda: "a torch")
    made_archive(unpacked, monkeypatch)
    assert "Abseil" in refused(lambda: HOOKS["build"](unpacked))


def test_torch_that_does_not_fit_is_named_with_those_that_do(monkeypatch: Patch) -> None:
    monkeypatch.undo()
    answer = subprocess.CompletedProcess([], 0, "/nowhere/torch\n2.4.1\n", "")
    monkeypatch.setattr(build_libraries.subprocess, "run", lambda *arguments, **options: answer)
    line = refused(build_libraries.beside)
    assert "2.4.1" in line and "2.9, 2.10" in line


@pytest.mark.parametrize("is_checkout, told", [(True, "FRUGAL_ABSEIL"), (False, "no git checkout")])
def test_sdist_is_refused_without_abseil_and_outside_a_checkout(
    unpacked: Path, monkeypatch: Patch, is_checkout: bool, told: str
) -> None:
    made_archive(unpacked, monkeypatch)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(unpacked.parent))
    if is_checkout:
        shutil.copy(ROOT / "pyproject.toml", unpacked)
        subprocess.run(["git", "init", "-q"], cwd=unpacked, check=True)
        subprocess.run(["git", "add", "."], cwd=unpacked, check=True)
    assert told in refused(lambda: build_backend.build_sdist(str(unpacked)))


# ----- for another architecture -----


def test_aarch64_is_built_on_x86_64(with_all: None) -> None:
    build_libraries.check_machine("aarch64")


@pytest.mark.parametrize(
    ("here", "architecture", "lacking", "words"),
    [
        ("x86_64", "riscv64", "", ["riscv64", "ask for one of x86_64, aarch64"]),
        ("aarch64", "x86_64", "", ["libraries for x86_64 are built on x86_64, and this is aarch64"]),
        ("x86_64", "aarch64", "compiler", ["aarch64-linux-gnu-g++", "tools/setup --aarch64"]),
        # CMake builds for its own machine alone.
        ("x86_64", "aarch64", "bazel", ["needs Bazel"]),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_to_do(
    with_all: None, monkeypatch: Patch, here: str, architecture: str, lacking: str, words: list[str]
) -> None:
    pretend_machine(here, monkeypatch)
    if lacking == "compiler":
        monkeypatch.setattr(shutil, "which", lambda name: None)
    if lacking == "bazel":
        monkeypatch.setattr(build_libraries, "has_bazel", lambda: False)
    line = refused(lambda: build_libraries.check_machine(architecture))
    assert [word for word in words if word not in line] == []


def test_without_torch_nothing_is_fetched_that_does_not_link_here(with_all: None, monkeypatch: Patch) -> None:
    pretend_machine("aarch64", monkeypatch)
    line = refused(build_libraries.everyone)
    assert "install torch first" in line and line.endswith("tools/wheel --architecture aarch64")


def test_torch_beside_this_python_is_of_its_architecture(with_all: None, tmp_path: Path) -> None:
    line = refused(lambda: build_backend.build_wheel(str(tmp_path), {"architecture": "aarch64"}))
    assert line.endswith("is not for aarch64; add torch=all")


def test_cmake_builds_the_libraries_that_bazel_builds() -> None:
    """Of the simulated GPU, by their names in the rules of both."""
    folder = ROOT / "simulated_gpu"
    rules = "".join((folder / path).read_text() for path in ("BUILD", "exports/BUILD", "libraries/BUILD"))
    by_bazel = set(re.findall(r":(lib[\w-]+\.so(?:\.\d+)?)\"", rules))
    lists = (folder / "CMakeLists.txt").read_text()
    for majors, body in re.findall(r"foreach\(major ([\d ]+)\)\n(.*?)endforeach", lists, re.DOTALL):
        lists += "".join(body.replace("${major}", major) for major in majors.split())
    by_cmake = set(re.findall(r"(?:simulated_library|stand_in)\((lib[\w-]+\.so(?:\.\d+)?) ", lists))
    assert by_cmake == by_bazel
