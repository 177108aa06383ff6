"""What cannot be done is refused in one line with exit status 2, before anything is measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_check_run import PACKAGES, Outcome, environment, run

Check = Callable[..., Outcome]


@pytest.mark.parametrize(
    "arguments, named",
    [
        ((), "what"),
        (("everything",), "everything"),
        (("facts", "--minutes", "none"), "none"),
        (("facts", "--minutes", "0"), "'0'"),
        (("facts", "--minutes", "nan"), "nan"),
        (("facts", "--minutes", "-3"), "-3"),
        (("facts", "--simulate", "lots"), "lots"),
        (("facts", "--fast"), "--fast"),
    ],
)
def test_wrong_arguments_are_named(check: Check, arguments: tuple[str, ...], named: str) -> None:
    assert named in check(*arguments).assert_refused()


def test_out_that_cannot_be_written_is_named(check: Check, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = check("facts", "--out", tmp_path / "file").assert_refused()
    assert str(tmp_path / "file") in said
    assert "--out" in said
    check("facts", "--out", tmp_path / "file" / "below").assert_refused()


def test_a_folder_with_somebodys_files_is_left_alone(check: Check, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "results.json").write_text("mine")
    assert "not empty" in check("facts", "--out", out).assert_refused()
    assert [path.read_text() for path in out.iterdir()] == ["mine"]


def test_without_torch_it_says_so(tmp_path: Path, check: Check) -> None:
    fake = tmp_path / "torch"
    fake.mkdir()
    (fake / "__init__.py").touch()
    (fake / "version.py").write_text("__version__ = '2.11.0+cpu'\ncuda = None\nhip = None\n")
    said = check("facts", "--out", tmp_path / "out", PYTHONPATH=f"{tmp_path}:{PACKAGES}").assert_refused()
    assert "CUDA" in said


def test_without_a_gpu_and_without_the_simulated_one_it_says_so(check: Check, tmp_path: Path) -> None:
    said = check("facts", "--out", tmp_path / "out", FRUGAL_SIM_LIBRARIES=str(tmp_path)).assert_refused()
    assert str(tmp_path) in said


@pytest.mark.parametrize("command", ["facts", "doctor"])
def test_gpu_that_does_not_answer_is_not_measured(command: str, tmp_path: Path) -> None:
    programs = {
        "facts": ["frugal_alloc._gpu_check", "facts", "--out", str(tmp_path / "out")],
        "doctor": ["frugal_alloc", "doctor", "--gpu"],
    }
    faulty = environment(FRUGAL_SIM_FAULTS="memory_info@1+=out_of_memory")
    said = run(sys.executable, "-m", *programs[command], env=faulty, cwd=tmp_path).assert_refused()
    assert "cuMemGetInfo_v2 fails with CUDA_ERROR_OUT_OF_MEMORY" in said
    assert "nvidia-smi" in said


def test_reader_who_has_seen_enough_ends_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "frugal_alloc._gpu_check", "facts", "--minutes", "0.1", "--out", str(out)]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert (out / "table.txt").is_file()
