"""What building from source says on a machine that it cannot build on: one line, with what to do."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
import sys
sys.path.insert(0, sys.argv[1])
{before}
import build_backend
build_backend.{hook}
"""
BUILD_WHEEL = "build_wheel(sys.argv[2])"
# pip asks this first.
ASK = "get_requires_for_build_wheel()"
# Nothing is fetched for what is refused.
NO_TORCH = "import build_libraries; build_libraries.beside = build_libraries.everyone = None"
NO_TORCH_BESIDE = "build_libraries.beside = lambda: None"
OLD_TORCH = """
import build_libraries, subprocess
answer = subprocess.CompletedProcess([], 0, "/nowhere/torch\\n2.4.1\\n", "")
build_libraries.check_machine = lambda architecture: None
build_libraries.subprocess.run = lambda *args, **kwargs: answer
"""


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """The parts of an sdist that build, where there is neither Abseil's source nor git."""
    for part in ("tools", "bindings/frugal_alloc"):
        ignored = shutil.ignore_patterns("__pycache__", "_lib")
        shutil.copytree(ROOT / part, tmp_path / "source" / part, ignore=ignored)
    for part in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / part, tmp_path / "source")
    return tmp_path / "source"


def said_by_build(source: Path, before: str, hook: str = BUILD_WHEEL) -> str:
    """The one line that it ends with."""
    command = [sys.executable, "-c", BUILD.format(before=before, hook=hook), source / "tools", source.parent]
    environment = {"PATH": "/usr/bin:/bin", "BAZEL": "no-such-bazel", "HOME": str(source.parent)}
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if "has no torch yet" not in line]
    assert (done.returncode, len(lines)) == (1, 1), done.stderr
    assert lines[0].startswith("frugal_alloc: ")
    return lines[0]


def test_without_abseil_it_says_where_to_put_it_and_that_a_wheel_needs_none(unpacked: Path) -> None:
    line = said_by_build(unpacked, NO_TORCH)
    assert "FRUGAL_ABSEIL" in line and "wheel" in line and str(unpacked / ".deps" / "abseil") in line


@pytest.mark.parametrize("hook", [ASK, BUILD_WHEEL])
def test_without_a_compiler_it_says_what_to_install(unpacked: Path, hook: str) -> None:
    (unpacked / ".deps" / "abseil" / "absl").mkdir(parents=True)
    no_compiler = NO_TORCH + "\nimport shutil; shutil.which = lambda name: None"
    line = said_by_build(unpacked, no_compiler, hook)
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
def test_pip_is_asked_for_what_cmake_needs_and_this_machine_lacks(here: str, brought: list[str]) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "tools")!r})
import build_backend, build_libraries, shutil
shutil.which = lambda name: name if name in {here.split()!r} else None
build_libraries.check_machine = lambda: None
build_libraries.has_bazel = lambda: shutil.which("bazel")
print(build_backend.get_requires_for_build_wheel())
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == f"{brought}\n"


@pytest.mark.parametrize(
    "pretend, named",
    [
        ("import sys; sys.platform = 'darwin'", "darwin"),
        ("import os; real = os.uname(); os.uname = lambda: os.uname_result([*real[:4], 'riscv64'])", "riscv64"),
        ("import sys; sys.version = '3.14.0 free-threading build'", "free-threaded"),
        ("import sys; sys.version_info = (3, 9, 18, 'final', 0)", "3.9.18"),
        ("import os; os.confstr = lambda name: None", "musl"),
        ("import build_libraries, os; os.confstr = lambda name: 'glibc 2.17'; " + NO_TORCH_BESIDE, "glibc 2.17"),
    ],
)
@pytest.mark.parametrize("hook", [ASK, BUILD_WHEEL])
def test_machine_that_there_can_be_no_library_for_is_named(unpacked: Path, pretend: str, named: str, hook: str) -> None:
    assert named in said_by_build(unpacked, NO_TORCH + "\n" + pretend, hook)


def test_old_glibc_is_no_hindrance_where_there_is_a_torch_for_it(unpacked: Path) -> None:
    pretend = "import os; os.confstr = lambda name: 'glibc 2.17'\n"
    assert "Abseil" in said_by_build(unpacked, pretend + "import build_libraries; build_libraries.beside = lambda: 1")


def test_torch_that_does_not_fit_is_named_with_those_that_do(unpacked: Path) -> None:
    line = said_by_build(unpacked, OLD_TORCH)
    assert "2.4.1" in line and "2.9, 2.10" in line


@pytest.mark.parametrize("is_checkout, told", [(True, "run tools/setup"), (False, "no git checkout")])
def test_sdist_is_refused_without_abseil_and_outside_a_checkout(unpacked: Path, is_checkout: bool, told: str) -> None:
    if is_checkout:
        subprocess.run(["git", "init", "-q"], cwd=unpacked, check=True)
        subprocess.run(["git", "add", "."], cwd=unpacked, check=True)
    code = "import sys; sys.path.insert(0, 'tools'); import build_backend; build_backend.build_sdist('.')"
    environment = {"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(unpacked.parent)}
    done = subprocess.run([sys.executable, "-c", code], cwd=unpacked, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert told in done.stderr and len(done.stderr.splitlines()) == 1
