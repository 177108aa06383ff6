"""What building for another architecture says where it cannot be done: one line, with what to do."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def build_libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """On x86-64, with all that building needs."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import build_libraries

    pretend_machine("x86_64", monkeypatch)
    monkeypatch.setattr(build_libraries, "has_bazel", lambda: True)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    yield build_libraries
    for name in ("build_backend", "build_libraries"):
        sys.modules.pop(name, None)


def pretend_machine(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = os.uname_result([*os.uname()[:4], machine])
    monkeypatch.setattr(os, "uname", lambda: answer)


def refusal(build_libraries: ModuleType, architecture: str) -> str:
    with pytest.raises(build_libraries.BuildError) as caught:
        build_libraries.check_machine(architecture)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_aarch64_is_built_on_x86_64(build_libraries: ModuleType) -> None:
    build_libraries.check_machine("aarch64")


@pytest.mark.parametrize("architecture", ["riscv64", "ppc64le", "arm64"])
def test_architecture_that_there_is_no_library_for_is_named_with_those_that_there_are(
    architecture: str, build_libraries: ModuleType
) -> None:
    line = refusal(build_libraries, architecture)
    assert architecture in line and "x86_64, aarch64" in line


def test_x86_64_is_not_built_on_aarch64(build_libraries: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_machine("aarch64", monkeypatch)
    assert refusal(build_libraries, "x86_64") == "libraries for x86_64 are built on x86_64, and this is aarch64"


def test_missing_cross_compiler_is_named_with_what_installs_it(
    build_libraries: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    line = refusal(build_libraries, "aarch64")
    assert "aarch64-linux-gnu-g++" in line and "tools/setup --aarch64" in line


def test_cmake_alone_builds_for_its_own_machine(build_libraries: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_libraries, "has_bazel", lambda: False)
    assert "needs Bazel" in refusal(build_libraries, "aarch64")


def test_without_torch_nothing_is_fetched_that_does_not_link_here(
    build_libraries: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_machine("aarch64", monkeypatch)
    monkeypatch.setattr(build_libraries.torch_sdk, "torch", pytest.fail)
    with pytest.raises(build_libraries.BuildError) as caught:
        build_libraries.everyone()
    line = str(caught.value)
    assert "install torch first" in line and "tools/wheel --architecture aarch64" in line and "\n" not in line


def test_torch_beside_this_python_is_of_its_architecture(build_libraries: ModuleType, tmp_path: Path) -> None:
    import build_backend

    with pytest.raises(SystemExit, match="is not for aarch64; add torch=all"):
        build_backend.build_wheel(str(tmp_path), {"architecture": "aarch64"})
