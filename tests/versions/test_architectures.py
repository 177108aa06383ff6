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


def test_aarch64_is_built_on_x86_64(build_libraries: ModuleType) -> None:
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
    build_libraries: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    here: str,
    architecture: str,
    lacking: str,
    words: list[str],
) -> None:
    pretend_machine(here, monkeypatch)
    if lacking == "compiler":
        monkeypatch.setattr(shutil, "which", lambda name: None)
    if lacking == "bazel":
        monkeypatch.setattr(build_libraries, "has_bazel", lambda: False)
    with pytest.raises(build_libraries.BuildError) as caught:
        build_libraries.check_machine(architecture)
    assert "\n" not in str(caught.value)
    assert [word for word in words if word not in str(caught.value)] == []


def test_without_torch_nothing_is_fetched_that_does_not_link_here(
    build_libraries: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_machine("aarch64", monkeypatch)
    monkeypatch.setattr(build_libraries.torch_sdk, "torch", pytest.fail)
    with pytest.raises(build_libraries.BuildError, match=r"install torch first.*tools/wheel --architecture aarch64$"):
        build_libraries.everyone()


def test_torch_beside_this_python_is_of_its_architecture(build_libraries: ModuleType, tmp_path: Path) -> None:
    import build_backend

    with pytest.raises(SystemExit, match="is not for aarch64; add torch=all"):
        build_backend.build_wheel(str(tmp_path), {"architecture": "aarch64"})
