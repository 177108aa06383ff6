"""Which library is picked for which PyTorch, by its version alone; tests/bindings/test_refusals.py runs them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import simulated_gpu
from frugal_alloc._common import installation
from frugal_alloc._common.installation import MissingPart, Torch
from simulated_gpu import launcher

RELEASES = ("2.11.0", "2.11.0+cu126", "2.11.3", "2.11.0.post1")
NOT_RELEASES = ("2.11.0.dev20260101+cu130", "2.11.0a0+nv25.9", "2.11.0rc2", "2.11.0a0+git1a2b3c4", "2.11.0+vendor7")
# How an ELF library begins: of 64 bits, little-endian, shared.
ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00"
MACHINES = {"x86_64": b"\x3e\x00", "aarch64": b"\xb7\x00"}
UNKNOWN = ("2.16.0", "2.8.0+cu128", "2.16.0.dev20261101+cu132", "2.1.1", "3.0.0", "1.13.1")


def write_headers(folder: Path, text: str) -> Path:
    for name in installation._CLASS_HEADERS:
        path = folder / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(autouse=True)
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Libraries for 2.9 to 2.11, built with the headers in known/."""
    folder = tmp_path / "_lib"
    folder.mkdir()
    digest = installation.headers_digest(write_headers(tmp_path / "known", "virtual void f();"))
    for tag in ("torch29", "torch210", "torch211"):
        (folder / f"frugal_alloc_{tag}.so").touch()
        (folder / f"frugal_alloc_{tag}.json").write_text(json.dumps({"torch": "2.11.0", "headers": digest}))
    monkeypatch.setattr(installation, "LIBRARIES", folder)
    return folder


def test_minors_are_listed_in_the_order_of_their_numbers() -> None:
    assert installation.built_minors() == ["2.9", "2.10", "2.11"]


@pytest.mark.parametrize("version", RELEASES)
def test_every_release_of_a_minor_gets_its_library(version: str, tmp_path: Path) -> None:
    picked = installation.find_library("alloc", Torch(tmp_path / "no headers needed", version, "13.0"))
    assert picked.name == "frugal_alloc_torch211.so"


@pytest.mark.parametrize("version", UNKNOWN)
def test_unknown_minor_gets_none(version: str, tmp_path: Path) -> None:
    with pytest.raises(MissingPart) as caught:
        installation.find_library("alloc", Torch(tmp_path / "known", version, "13.0"))
    assert version in str(caught.value)
    assert "built for: 2.9, 2.10, 2.11" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", NOT_RELEASES)
def test_other_builds_get_the_library_only_with_the_same_classes(version: str, tmp_path: Path) -> None:
    same = Torch(tmp_path / "known", version, "13.0")
    assert installation.find_library("alloc", same).name == "frugal_alloc_torch211.so"
    other = Torch(write_headers(tmp_path / "other", "virtual void g(); virtual void f();"), version, "13.0")
    with pytest.raises(MissingPart, match=r"is no release.*from its source") as caught:
        installation.find_library("alloc", other)
    assert version in str(caught.value)


def test_other_build_without_headers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingPart, match="is no release"):
        installation.find_library("alloc", Torch(tmp_path / "nothing", NOT_RELEASES[0], "13.0"))


@pytest.mark.parametrize("record", [None, "", "[]", '{"torch": "2.11.0"}'])
def test_other_build_is_refused_if_nobody_knows_what_the_library_was_built_for(
    record: str | None, tmp_path: Path, libraries: Path
) -> None:
    path = libraries / "frugal_alloc_torch211.json"
    path.unlink() if record is None else path.write_text(record)
    with pytest.raises(MissingPart, match="is no release"):
        installation.find_library("alloc", Torch(tmp_path / "known", NOT_RELEASES[0], "13.0"))


def pretend_machine(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = os.uname_result([*os.uname()[:4], machine])
    monkeypatch.setattr(installation.os, "uname", lambda: answer)


@pytest.mark.parametrize("library, machine", [("aarch64", "x86_64"), ("x86_64", "aarch64")])
def test_library_for_another_architecture_is_named_with_the_wheel_to_take(
    library: str, machine: str, tmp_path: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_machine(machine, monkeypatch)
    (libraries / "frugal_alloc_torch211.so").write_bytes(ELF + MACHINES[library])
    with pytest.raises(MissingPart, match=f"built for {library}.*the wheel for {machine}") as caught:
        installation.find_library("alloc", Torch(tmp_path, "2.11.0", "13.0"))
    assert "\n" not in str(caught.value)


def test_simulated_gpu_for_another_architecture_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_machine("x86_64", monkeypatch)
    for name in launcher.NEEDED:
        (tmp_path / name).write_bytes(ELF + MACHINES["aarch64"])
    monkeypatch.setenv("FRUGAL_SIM_LIBRARIES", str(tmp_path))
    with pytest.raises(simulated_gpu.SimulationError, match=r"built for aarch64.*the wheel for x86_64"):
        simulated_gpu.libraries()
