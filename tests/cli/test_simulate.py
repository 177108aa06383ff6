"""``frugal-alloc simulate`` runs a command on the simulated GPU and ends as it ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest


def simulate(program: Any, *command: str | Path, **options: Any) -> Any:
    return program("simulate", "--memory", "2GiB", "--", *command, **options)


@pytest.mark.parametrize(
    ("shell", "status"),
    [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9)],
)
def test_exit_status_is_the_commands(shell: str, status: int, program: Any) -> None:
    assert simulate(program, "sh", "-c", shell).status == status


def test_command_that_cannot_be_found_gets_one_line_and_status_2(program: Any) -> None:
    outcome = simulate(program, "no-such-command-here")
    assert outcome.status == 2
    assert outcome.err == "frugal-alloc: 'no-such-command-here' is not a program that can be found and run\n"


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


def test_standard_streams_are_the_commands(program: Any) -> None:
    outcome = simulate(program, "cat", input="through")
    assert outcome.out == "through"


def test_torch_sees_as_many_gpus_of_as_much_memory_as_asked_for(program: Any) -> None:
    code = "import torch; print(torch.cuda.device_count(), torch.cuda.mem_get_info(1)[1])"
    outcome = program("simulate", "--memory", "3GiB", "--gpus", "2", "--", sys.executable, "-c", code)
    assert (outcome.status, outcome.out) == (0, f"2 {3 << 30}\n"), outcome


MEMORY = "import torch; print(torch.cuda.mem_get_info()[1])"


def test_the_memory_of_a_gpu_follows_from_its_name(program: Any) -> None:
    outcome = program("simulate", "--gpu", "rtx4090", "--", sys.executable, "-c", MEMORY)
    assert (outcome.status, outcome.out) == (0, f"{24206 << 20}\n"), outcome
    assert "a simulated NVIDIA GeForce RTX 4090 of 23.64 GiB" in outcome.err


def test_memory_that_is_given_goes_before_the_models(program: Any) -> None:
    outcome = program("simulate", "--gpu", "4090", "--memory", "3GiB", "--", sys.executable, "-c", MEMORY)
    assert (outcome.status, outcome.out) == (0, f"{3 << 30}\n"), outcome


def test_a_gpu_that_is_not_known_gets_the_nearest_names_and_status_2(program: Any) -> None:
    outcome = program("simulate", "--gpu", "RTX 4095", "--", "true")
    assert outcome.status == 2
    assert "RTX 4090" in outcome.err and outcome.err.count("\n") == 1
