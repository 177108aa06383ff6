"""``frugal-alloc doctor`` reports, whatever is there or not."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from typing import Any

import frugal_alloc
import pytest
import torch
from frugal_alloc._common import installation


def findings(out: str) -> dict[str, tuple[str, str]]:
    """By subject: the verdict, and what was found."""
    lines = [(line[:8].strip(), line[8:23].strip(), line[23:]) for line in out.splitlines()]
    return {subject: (verdict, finding) for verdict, subject, finding in lines}


def doctor(program: Any, *simulate: str, **variables: str) -> dict[str, tuple[str, str]]:
    """What it finds; `simulate`: on the simulated GPU that these options ask for."""
    line = ["simulate", *simulate, "--", sys.executable, "-m", "frugal_alloc"] if simulate else []
    outcome = program(*line, "doctor", env=os.environ | variables)
    assert outcome.status == 0 and (simulate or outcome.err == ""), outcome
    return findings(outcome.out)


def test_on_the_simulated_gpu_all_is_well(program: Any) -> None:
    found = doctor(program, "--memory", "2GiB")
    assert {verdict for verdict, _ in found.values()} == {"ok"}, found
    assert found["torch"][1].startswith(torch.__version__)
    assert platform.machine() in found["system"][1] and re.search(r"glibc 2\.\d+$", found["system"][1])
    assert "(simulated)" in found["driver"][1]
    assert "2.00 GiB, virtual memory management" in found["GPU 0"][1]
    assert found["trial"][1] == "enabled, allocated and freed 64 MiB on the simulated GPU"
    assert found["hook"][1].startswith("not installed")
    assert found["settings"][1] == "memory_limit:off,idle_release:off,track:on,publish:on,self_check:fast,remap:on"


def test_a_gpu_whose_memory_is_the_hosts_is_told_apart(program: Any) -> None:
    found = doctor(program, "--memory", "4GiB", "--unified")
    assert "4.00 GiB of the host's memory" in found["GPU 0"][1]
    verdict, finding = found["unified memory"]
    assert verdict == "ok"
    assert finding.startswith("The GPU's memory is the host's, 4.00 GiB: this process has ")
    assert "other processes, pinned memory and the system have " in finding
    assert " are available, " in finding


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_simulated_one_is_tried_and_json_says_the_same(program: Any) -> None:
    found = doctor(program)
    assert found["driver"][0] == found["GPU"][0] == "missing"
    assert "frugal-alloc simulate" in found["GPU"][1]
    assert found["trial"] == ("ok", "enabled, allocated and freed 64 MiB on the simulated GPU")
    outcome = program("doctor", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert document["frugal_alloc"] == frugal_alloc.__version__
    assert {check["subject"]: (check["verdict"], check["finding"]) for check in document["checks"]} == found


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"FRUGAL_ALLOC_CONF": "memory_limit:80%", "FRUGAL_ALLOC": "0"},
            {
                "settings": ("ok", "memory_limit:80%,idle_release:off,track:on,publish:on,self_check:fast,remap:on"),
                "FRUGAL_ALLOC": ("less", "0, so nothing enables the allocator"),
            },
        ),
        (
            {"FRUGAL_ALLOC_CONF": "memory_limit:lots", "FRUGAL_ALLOC": "yes"},
            {
                "trial": ("missing", "FRUGAL_ALLOC_CONF: memory_limit:lots is not possible"),
                "FRUGAL_ALLOC": ("missing", "yes is not possible; it is 0 (off) or 1 (on)"),
            },
        ),
        ({"FRUGAL_SIM_LIBRARIES": "/nowhere"}, {"simulated GPU": ("missing", "/nowhere")}),
    ],
    ids=["settings", "settings that are not possible", "no simulated GPU"],
)
def test_what_the_environment_says_is_shown(
    variables: dict[str, str], expected: dict[str, tuple[str, str]], program: Any
) -> None:
    found = doctor(program, **variables)
    for subject, (verdict, part) in expected.items():
        assert found[subject][0] == verdict and part in found[subject][1]


@pytest.mark.parametrize(
    ("variable", "value", "subject", "part"),
    [
        ("FRUGAL_SIM_VMM", "0", "GPU 0", "no virtual memory management"),
        ("FRUGAL_SIM_FAULTS", "set_access@1+=not_supported", "driver's word", "whole segments"),
        ("FRUGAL_SIM_FAULTS", "set_access@1=unknown,set_access@2=unknown", "driver's word", "does without"),
    ],
)
def test_driver_that_has_or_keeps_less_is_said_to_lose_something(
    variable: str, value: str, subject: str, part: str, program: Any
) -> None:
    found = doctor(program, "--memory", "2GiB", **{variable: value})
    assert found[subject][0] == "less" and part in found[subject][1]
    assert found["trial"][0] == "ok"


def test_torch_that_is_not_there_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(installation.MissingPart, match="pip install torch"):
        installation.find_torch()


def test_what_is_installed_is_found_out_without_importing_torch() -> None:
    imports = "import sys, frugal_alloc._command.cli; from frugal_alloc._common import installation"
    code = f"{imports}; installation.find_torch(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch" not in done.stdout.split()
