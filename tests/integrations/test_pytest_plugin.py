"""@pytest.mark.gpu_no_leak fails tests that leave GPU memory in use, and costs nothing where it is not used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import fork_server
import pytest
import simulated_gpu

LEAKS = """
import unittest
import pytest
import torch

kept = []
calls = []

@pytest.mark.gpu_no_leak
def test_healthy():
    torch.ones(1 << 20, device="cuda").sum()

@pytest.mark.gpu_no_leak
def test_leaking():
    kept.append(torch.ones(1 << 20, device="cuda"))

@pytest.mark.gpu_no_leak
def test_made_once():
    if "made once" not in calls:
        calls.append("made once")
        kept.append(torch.ones(1 << 20, device="cuda"))

@pytest.mark.gpu_no_leak(warmup=0)
def test_first_call_counts():
    test_made_once.__globals__["calls"].clear()
    test_made_once()

@pytest.mark.gpu_no_leak(allow_bytes=8 << 20)
def test_allowed():
    kept.append(torch.ones(1 << 20, device="cuda"))

@pytest.mark.gpu_no_leak
@pytest.mark.parametrize("size", [1, 2])
def test_with_a_fixture(tmp_path, size):
    assert tmp_path.exists() and torch.ones(size, device="cuda").shape == (size,)

@pytest.mark.gpu_no_leak
def test_that_fails():
    kept.append(torch.ones(1 << 20, device="cuda"))
    assert 1 == 2

@pytest.mark.gpu_no_leak(warmups=3)
def test_with_wrong_arguments():
    pass

@pytest.mark.gpu_no_leak
async def test_coroutine():
    pass

class TestCase(unittest.TestCase):
    @pytest.mark.gpu_no_leak
    def test_method(self):
        pass

class TestClass:
    @pytest.mark.gpu_no_leak
    def test_method(self):
        torch.ones(1, device="cuda")

def test_without_marker():
    kept.append(torch.ones(1 << 20, device="cuda"))
"""

Outcomes = dict[str, tuple[str, str]]


def run_pytest(folder: Path, code: str, environment: dict[str, str]) -> tuple[Outcomes, str]:
    """What became of each test: ("passed" or "failed" or "skipped", why); and what pytest printed."""
    (folder / "test_file.py").write_text(code)
    # By its module, so that it does not matter whether the entry point is installed.
    plugin = ["-p", "no:frugal_alloc", "-p", "frugal_alloc.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", *plugin, "--junitxml=out.xml", "test_file.py"]
    done = fork_server.run(command, cwd=folder, env=environment)
    outcomes: Outcomes = {}
    for case in ElementTree.parse(folder / "out.xml").iter("testcase"):
        name = case.get("name", "")
        outcomes[name if name not in outcomes else f"{case.get('classname')}.{name}"] = next(
            (("skipped" if one.tag == "skipped" else "failed", one.get("message", "")) for one in case), ("passed", "")
        )
    return outcomes, done.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcomes, str]:
    environment = simulated_gpu.environment(2 << 30, values="cpu")
    return run_pytest(tmp_path_factory.mktemp("leaks"), LEAKS, environment)


@pytest.fixture(scope="module")
def outcomes(run: tuple[Outcomes, str]) -> Outcomes:
    return run[0]


def test_a_test_that_keeps_memory_fails_with_its_line(outcomes: Outcomes) -> None:
    state, why = outcomes["test_leaking"]
    line = LEAKS[: LEAKS.index("kept.append")].count("\n") + 1
    assert state == "failed"
    assert "4.00 MiB" in why
    assert f"test_file.py:{line}" in why


def test_a_failure_of_ours_is_one_message_and_not_a_chain_of_exceptions(run: tuple[Outcomes, str]) -> None:
    assert "gpu_no_leak: " in run[1]
    assert "During handling of the above exception" not in run[1]
    assert "LeakError" not in run[1]


@pytest.mark.parametrize(
    "name",
    ["test_healthy", "test_made_once", "test_allowed", "test_with_a_fixture[1]", "test_with_a_fixture[2]"],
)
def test_a_test_that_keeps_nothing_passes(outcomes: Outcomes, name: str) -> None:
    assert outcomes[name] == ("passed", "")


def test_methods_of_classes_are_tests_too(outcomes: Outcomes) -> None:
    assert ("passed", "") in [outcome for name, outcome in outcomes.items() if name.endswith("test_method")]


def test_without_warm_up_the_first_call_counts(outcomes: Outcomes) -> None:
    assert outcomes["test_first_call_counts"][0] == "failed"


def test_a_test_without_the_marker_is_left_alone(outcomes: Outcomes) -> None:
    assert outcomes["test_without_marker"] == ("passed", "")


def test_a_test_that_fails_by_itself_fails_by_itself(outcomes: Outcomes) -> None:
    assert "assert 1 == 2" in outcomes["test_that_fails"][1]


def test_what_the_marker_cannot_do_is_said(outcomes: Outcomes) -> None:
    said = {name: why for name, (state, why) in outcomes.items() if state == "failed"}
    assert "gpu_no_leak: " in said["test_with_wrong_arguments"]
    assert "'warmups'" in said["test_with_wrong_arguments"]
    assert "knows no coroutines" in said["test_coroutine"]
    assert any("knows no unittest.TestCase" in why for why in said.values())


def test_without_a_gpu_tests_are_skipped_with_the_reason_before_their_fixtures_need_one(tmp_path: Path) -> None:
    code = """
import pytest, torch

@pytest.fixture(scope="module", autouse=True)
def first():
    torch.ones(1).cuda()

@pytest.fixture
def model():
    return torch.nn.Linear(2, 2).cuda()

@pytest.mark.gpu_no_leak
def test_one(model): pass

class TestClass:
    def setup_method(self): torch.ones(1).cuda()

    @pytest.mark.gpu_no_leak
    def test_two(self): pass
"""
    found, _ = run_pytest(tmp_path, code, os.environ | {"CUDA_VISIBLE_DEVICES": ""})
    assert {name: state for name, (state, _) in found.items()} == {"test_one": "skipped", "test_two": "skipped"}
    assert "frugal-alloc simulate --memory 8GiB --values cpu -- python -m pytest" in found["test_one"][1]


def test_other_tests_do_not_wait_for_torch(tmp_path: Path) -> None:
    code = "import sys\ndef test_one(): assert 'torch' not in sys.modules\n"
    assert run_pytest(tmp_path, code, dict(os.environ))[0] == {"test_one": ("passed", "")}


def test_the_marker_is_listed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:frugal_alloc", "-p", "frugal_alloc.pytest_plugin", "--markers"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert "@pytest.mark.gpu_no_leak(allow_bytes=0, warmup=1): " in done.stdout
