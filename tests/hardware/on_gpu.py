"""What the tests of a GPU share: how much they may take, what the simulated GPU cannot show, and processes."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.doctor.driver import CannotTell, DriverError, Gpu
from frugal_alloc._command.doctor.machine import is_simulated

KERNELS = Path(__file__).resolve().parent / "kernels"
SIMULATED = is_simulated()
#: Nobody else uses this GPU: its memory may be filled.
ALONE = SIMULATED or os.environ.get("FRUGAL_TEST_GPU") == "real"
needs_a_full_device = pytest.mark.skipif(not ALONE, reason="others hold memory of this GPU; --alone says that none do")
#: Of the fixture `figure`: a name, a value, its unit, and what there is to say of it.
Figure = Callable[..., None]
_SECONDS = 300
#: The exit status of a process whose error says nothing of the GPU.
_NOT_FOUND_OUT = 77


def shown(good: bool, said: str) -> None:
    """Asserts what needs values, times or a real driver. The simulated GPU shows only that the calls are made."""
    if SIMULATED:
        pytest.skip("all calls succeeded; the rest needs a real GPU")
    assert good, said


def says_nothing(error: BaseException) -> bool:
    """Whether nothing is known of the GPU by it: software does not suit, or others hold the memory."""
    is_full = error.is_out_of_memory if isinstance(error, DriverError) else type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, CannotTell) or (is_full and not ALONE)


def rounds(full: int, least: int = 2) -> int:
    return max(least, full // 100) if SIMULATED else full


def most_bytes(gpu: Gpu, most: int) -> int:
    """`most`, or as much as is decent: a quarter of what is free where others are; of the simulated GPU a little."""
    share = int(gpu.free_bytes() * (0.8 if ALONE else 0.25))
    return min(most, share, (64 << 20) if SIMULATED else share)


def started(function: Callable[..., None], *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """A function of a module in a process of its own: what it prints is for who has started it.

    Args:
        arguments: which JSON can say.
    """
    command = [sys.executable, "-m", "hardware.on_gpu", function.__module__, function.__name__, json.dumps(arguments)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, env=os.environ | environment, text=True, **pipes)


def answers_of(function: Callable[..., None], *arguments: object, **environment: str) -> list[dict[str, Any]]:
    """What it prints, a line of JSON each; it has to end well."""
    with started(function, *arguments, **environment) as process:
        try:
            said, _ = process.communicate(timeout=_SECONDS)
        finally:
            process.kill()
    check_ending(process, said)
    return [json.loads(line) for line in said.splitlines()]


def are_ready(running: Sequence[subprocess.Popen[str]]) -> bool:
    """Whether each has said so, in a line."""
    silent = [each for each in running if not each.stdout.readline()]
    for each in silent:
        check_ending(each, "before it was ready")
    return not silent


def check_ending(process: subprocess.Popen[str], said: str) -> None:
    """
    Raises:
        CannotTell: it has ended by what says nothing of the GPU.
    """
    if process.wait() == _NOT_FOUND_OUT:
        raise CannotTell(f"a process had no memory, or no software that suits: {said}")
    assert process.returncode == 0, f"{process.args} ended with status {process.returncode}: {said}"


def tell(**found: object) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    module, name, values = sys.argv[1:]
    status = 0
    try:
        getattr(importlib.import_module(module), name)(*json.loads(values))
    except Exception as error:
        if not says_nothing(error):
            raise
        status = _NOT_FOUND_OUT
        print(error, file=sys.stderr, flush=True)
    sys.stdout.flush()
    # As a program that is killed would end: what it holds goes back by the end of the process.
    os._exit(status)
