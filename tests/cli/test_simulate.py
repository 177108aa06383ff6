"""``frugal-alloc simulate`` runs a command on the simulated GPU and ends as it ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest


def test_a_script_without_python_before_it_is_told_what_is_missing(program: Any, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    outcome = program("simulate", "--memory", "2GiB", "--", script)
    assert outcome.status == 2
    assert outcome.err.endswith(f"can be found and run; a Python program is run by `python {script}`\n")


# Of the driver itself, without the seconds that torch takes to be imported.
GPUS = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
count, size = ctypes.c_int(), ctypes.c_size_t()
assert driver.cuInit(0) == driver.cuDeviceGetCount(ctypes.byref(count)) == 0
assert driver.cuDeviceTotalMem_v2(ctypes.byref(size), count.value - 1) == 0
print(count.value, size.value)
"""


@pytest.mark.parametrize(
    ("options", "gpus", "memory", "told"),
    [
        (["--memory", "3GiB", "--gpus", "2"], 2, 3 << 30, "2 simulated GPUs of 3.00 GiB"),
        (["--gpu", "rtx4090"], 1, 24206 << 20, "a simulated NVIDIA GeForce RTX 4090 of 23.64 GiB"),
        (["--gpu", "4090", "--memory", "3GiB"], 1, 3 << 30, "a simulated NVIDIA GeForce RTX 4090 of 3.00 GiB"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_program_sees_the_gpus_that_are_asked_for(
    options: list[str], gpus: int, memory: int, told: str, program: Any
) -> None:
    outcome = program("simulate", *options, "--", sys.executable, "-c", GPUS)
    assert (outcome.status, outcome.out) == (0, f"{gpus} {memory}\n"), outcome
    assert told in outcome.err
