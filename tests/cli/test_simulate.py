"""``frugal-alloc simulate`` runs a command on the simulated GPU and ends as it ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest


def simulate(program: Any, *command: str | Path, **options: Any) -> Any:
    return program("simulate", "--memory", "2GiB", "--", *command, **options)


def test_a_script_without_python_before_it_is_told_what_is_missing(program: Any, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    outcome = simulate(program, str(script))
    assert outcome.status == 2
    assert outcome.err.endswith(f"can be found and run; a Python program is run by `python {script}`\n")


def test_a_variable_in_the_place_of_the_command_is_told_where_it_goes(program: Any) -> None:
    outcome = simulate(program, "FRUGAL_ALLOC_CONF=report_dir:x", "python", "train.py")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "a variable is set before the whole command" in outcome.err


def test_arguments_after_the_command_are_the_commands(program: Any) -> None:
    outcome = program("simulate", "--memory", "2GiB", "echo", "--memory", "a", "--", "b")
    assert (outcome.status, outcome.out) == (0, "--memory a -- b\n")
    assert simulate(program, "printf", "%s", "--help").out == "--help"


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


def test_a_gpu_that_is_not_known_gets_the_nearest_names_and_status_2(program: Any) -> None:
    outcome = program("simulate", "--gpu", "RTX 4095", "--", "true")
    assert outcome.status == 2
    assert "RTX 4090" in outcome.err and outcome.err.count("\n") == 1
