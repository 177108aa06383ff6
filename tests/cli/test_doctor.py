"""``frugal-alloc doctor`` reports, whatever is there or not."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import frugal_alloc
import pytest
import torch
from frugal_alloc._common import installation


def findings(out: str) -> dict[str, tuple[str, str]]:
    """By subject: the verdict, and what was found."""
    lines = [(line[:8].strip(), line[8:23].strip(), line[23:]) for line in out.splitlines()]
    return {subject: (verdict, finding) for verdict, subject, finding in lines}


def doctor(program: Any, **options: Any) -> dict[str, tuple[str, str]]:
    outcome = program("doctor", **options)
    assert (outcome.status, outcome.err) == (0, "")
    return findings(outcome.out)


def test_on_the_simulated_gpu_all_is_well(program: Any) -> None:
    outcome = program("simulate", "--memory", "2GiB", "--", sys.executable, "-m", "frugal_alloc", "doctor")
    assert outcome.status == 0
    found = findings(outcome.out)
    assert {verdict for verdict, _ in found.values()} == {"ok"}, outcome.out
    assert found["torch"][1].startswith(torch.__version__)
    assert "(simulated)" in found["driver"][1]
    assert "2.00 GiB, virtual memory management" in found["GPU 0"][1]
    assert found["trial"][1] == "enabled, allocated and freed 64 MiB on the simulated GPU"
    assert found["hook"][1].startswith("not installed")
    assert found["settings"][1] == "memory_limit:off,idle_release:off,track:on,publish:on,check:fast,remap:on"


def test_a_gpu_whose_memory_is_the_hosts_is_told_apart(program: Any) -> None:
    command = [sys.executable, "-m", "frugal_alloc", "doctor"]
    outcome = program("simulate", "--memory", "4GiB", "--unified", "--", *command)
    assert outcome.status == 0
    found = findings(outcome.out)
    assert "4.00 GiB of the host's memory" in found["GPU 0"][1]
    verdict, finding = found["unified memory"]
    assert verdict == "ok"
    assert finding.startswith("The GPU's memory is the host's, 4.00 GiB: this process has ")
    assert "other processes, pinned memory and the system have " in finding
    assert " are available, " in finding


def test_as_json_it_says_the_same(program: Any) -> None:
    outcome = program("doctor", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert document["frugal_alloc"] == frugal_alloc.__version__
    told = {check["subject"]: (check["verdict"], check["finding"]) for check in document["checks"]}
    assert told == doctor(program)


def test_system_is_what_wheels_are_chosen_by(program: Any) -> None:
    _, finding = doctor(program)["system"]
    assert platform.machine() in finding
    assert re.search(r"glibc 2\.\d+$", finding)


def test_settings_in_force_and_the_switch_are_shown(program: Any) -> None:
    conf = {"FRUGAL_ALLOC_CONF": "memory_limit:80%", "FRUGAL_ALLOC": "0"}
    found = doctor(program, env=os.environ | conf)
    assert found["settings"] == ("ok", "memory_limit:80%,idle_release:off,track:on,publish:on,check:fast,remap:on")
    assert found["FRUGAL_ALLOC"][0] == "less"


def test_settings_that_are_not_possible_are_named(program: Any) -> None:
    found = doctor(program, env=os.environ | {"FRUGAL_ALLOC_CONF": "memory_limit:lots", "FRUGAL_ALLOC": "yes"})
    assert "FRUGAL_ALLOC_CONF: memory_limit:lots is not possible" in found["trial"][1]
    assert found["FRUGAL_ALLOC"] == ("missing", "yes is not possible; it is 0 (off) or 1 (on)")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_allocator_is_tried_on_the_simulated_one(program: Any) -> None:
    found = doctor(program)
    assert found["driver"][0] == found["GPU"][0] == "missing"
    assert "frugal-alloc simulate" in found["GPU"][1]
    assert found["trial"] == ("ok", "enabled, allocated and freed 64 MiB on the simulated GPU")


def test_gpu_without_virtual_memory_is_said_to_lose_something(program: Any) -> None:
    outcome = program(
        "simulate",
        "--memory",
        "2GiB",
        "--",
        sys.executable,
        "-m",
        "frugal_alloc",
        "doctor",
        env={**os.environ, "FRUGAL_SIM_VMM": "0"},
    )
    verdict, finding = findings(outcome.out)["GPU 0"]
    assert verdict == "less"
    assert "no virtual memory management" in finding


def test_driver_that_promises_more_than_it_keeps_is_said_to_lose_something(program: Any) -> None:
    lost = {
        "set_access@1+=not_supported": "whole segments",
        "set_access@1=unknown,set_access@2=unknown": "does without",
    }
    for faults, what in lost.items():
        outcome = program(
            *("simulate", "--memory", "2GiB", "--", sys.executable, "-m", "frugal_alloc", "doctor"),
            env={**os.environ, "FRUGAL_SIM_FAULTS": faults},
        )
        found = findings(outcome.out)
        assert found["driver's word"][0] == "less", outcome.out
        assert what in found["driver's word"][1]
        assert found["trial"][0] == "ok"


def test_missing_simulated_gpu_is_named_with_what_to_do(program: Any, tmp_path: Path) -> None:
    found = doctor(program, env={**os.environ, "FRUGAL_SIM_LIBRARIES": str(tmp_path)})
    verdict, finding = found["simulated GPU"]
    assert verdict == "missing"
    assert str(tmp_path) in finding
    assert "tools/setup" in finding


def _fake_torch(folder: Path, version: str, cuda: str) -> Path:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("raise ImportError('not a real one')")
    (folder / "torch" / "version.py").write_text(f"__version__ = '{version}'\ncuda: Optional[str] = {cuda}\n")
    return folder


@pytest.mark.parametrize(
    ("version", "cuda", "expected"),
    [
        ("2.11.0+cpu", "None", "is built without CUDA; install a CUDA build of it"),
        ("2.99.1+cu130", "'13.0'", "has no frugal_alloc_torch299.so for PyTorch 2.99.1+cu130"),
    ],
    ids=["CPU only", "unknown minor version"],
)
def test_torch_that_will_not_do_is_named_with_what_to_do(
    version: str, cuda: str, expected: str, program: Any, tmp_path: Path
) -> None:
    folder = _fake_torch(tmp_path, version, cuda)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    found = doctor(program, env={**os.environ, "PYTHONPATH": path})
    missing = [finding for verdict, finding in found.values() if verdict == "missing"]
    assert any(expected in finding for finding in missing), found


def test_torch_that_is_not_there_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(installation.MissingPart, match="pip install torch"):
        installation.find_torch()


def test_what_is_installed_is_found_out_without_importing_torch() -> None:
    imports = "import sys, frugal_alloc._command.cli; from frugal_alloc._common import installation"
    code = f"{imports}; installation.find_torch(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch" not in done.stdout.split()
