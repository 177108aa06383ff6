"""Every function of torch.cuda.memory and torch.accelerator.memory does with our memory what it does with native's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("memory_calls.py")


@pytest.fixture(scope="module")
def runs():
    """What the program reports of PyTorch's own allocator, and of ours."""
    command = [sys.executable, str(PROGRAM)]
    started = [
        subprocess.Popen([*command, which], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for which in ("native", "ours")
    ]
    ended = [process.communicate(timeout=600) for process in started]
    for process, (_, errors) in zip(started, ended, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(output.splitlines()[-1]) for output, _ in ended]


def differences(native, ours, path: str = "") -> list[str]:
    if isinstance(native, dict) and isinstance(ours, dict):
        found = [
            f"{path}: {key} only in {'native' if key in native else 'ours'}" for key in native.keys() ^ ours.keys()
        ]
        return found + [
            line for key in native.keys() & ours.keys() for line in differences(native[key], ours[key], f"{path}/{key}")
        ]
    return [] if native == ours else [f"{path}: native {native}, ours {ours}"]


def test_every_function_is_called(runs):
    native, _ = runs
    assert set(native["functions"]) - set(native["called"]) == set()


def test_results_agree(runs):
    native, ours = runs
    assert differences(native["same"], ours["same"]) == []


def test_keys_and_types_agree(runs):
    native, ours = runs
    assert differences(native["shape"], ours["shape"]) == []
