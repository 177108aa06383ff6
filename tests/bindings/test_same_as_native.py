"""Every function of torch.cuda.memory and torch.accelerator.memory does with our memory what it does with native's."""

import json
import sys
from pathlib import Path

import fork_server
import pytest

PROGRAM = Path(__file__).with_name("memory_calls.py")


@pytest.fixture(scope="module")
def runs():
    """What the program reports of PyTorch's own allocator, and of ours."""
    ended = [fork_server.run([sys.executable, PROGRAM, which]) for which in ("native", "ours")]
    for done in ended:
        assert done.returncode == 0, done.stderr
    return [json.loads(done.stdout.splitlines()[-1]) for done in ended]


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
