"""What cannot be done is refused in one line with exit status 2, before anything is measured."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from frugal_alloc._command.doctor import machine
from gpu_check_run import ROOT, Outcome, environment, results, run
from hardware import kit
from hardware.__main__ import _parse

Check = Callable[..., Outcome]


@pytest.mark.parametrize(
    "arguments, named",
    [
        ((), "what"),
        (("everything",), "everything"),
        (("limits",), "--alone"),
        (("facts", "--add", "out"), "--add"),
        *((("facts", "--minutes", wrong), wrong) for wrong in ("none", "0", "nan", "-3")),
        (("facts", "--simulate", "lots"), "lots"),
        (("facts", "--fast"), "--fast"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _parse(list(arguments))
    assert named in Outcome(int(ended.value.code or 0), *capsys.readouterr()).assert_refused()


def test_commands_of_the_document_are_understood() -> None:
    text = (ROOT / "docs" / "gpu_check.md").read_text(encoding="utf-8")
    commands = re.findall(r"^DIR/run (.*?)(?: +#.*)?$", text, re.MULTILINE)
    assert len(commands) == 7
    for command in commands:
        _parse(shlex.split(command))


def test_out_that_cannot_be_written_or_has_somebodys_files_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("mine")
    for out, said in (
        (tmp_path, "is not empty"),
        (tmp_path / "results.json", "cannot be written"),
        (tmp_path / "results.json" / "below", "cannot be written"),
    ):
        with pytest.raises(machine.CannotRun, match=f"{re.escape(str(out))} {said}.*--out"):
            machine.prepare(out)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_torch_without_cuda_is_named(tmp_path: Path, check: Check) -> None:
    fake = tmp_path / "torch"
    fake.mkdir()
    (fake / "__init__.py").touch()
    (fake / "version.py").write_text("__version__ = '2.11.0+cpu'\ncuda = None\nhip = None\n")
    path = f"{tmp_path}:{environment()['PYTHONPATH']}"
    assert "CUDA" in check("facts", "--out", tmp_path / "out", PYTHONPATH=path).assert_refused()


def test_without_a_gpu_and_without_the_simulated_one_it_says_so(check: Check, tmp_path: Path) -> None:
    said = check("facts", "--out", tmp_path / "out", FRUGAL_SIM_LIBRARIES=str(tmp_path)).assert_refused()
    assert str(tmp_path) in said


@pytest.mark.parametrize("command", [["hardware", "facts", "--out", "out"], ["frugal_alloc", "doctor", "--gpu"]])
def test_gpu_that_does_not_answer_is_not_measured(command: list[str], tmp_path: Path) -> None:
    faulty = environment(FRUGAL_SIM_FAULTS="memory_info@1+=out_of_memory")
    said = run(sys.executable, "-m", *command, env=faulty, cwd=tmp_path).assert_refused()
    assert "cuMemGetInfo_v2 fails with CUDA_ERROR_OUT_OF_MEMORY" in said
    assert "nvidia-smi" in said


def test_driver_older_than_the_cuda_of_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"problem": None, "software": {"cuda": "13.0"}}
    monkeypatch.setattr(machine, "json_of", lambda *_: found)
    found["driver_for_cuda"] = "12.9"
    with pytest.raises(machine.CannotRun, match=r"driver is for CUDA 12\.9, and this torch for CUDA 13\.0"):
        machine.find({}, None)
    # Of the same major version it may be the older one.
    found["driver_for_cuda"] = "13.0"
    machine.find({}, None)


def test_what_starves_others_runs_by_its_name_alone_and_where_it_runs_is_described(
    check: Check, tmp_path: Path
) -> None:
    assert {step.name for step in kit.STEPS} - {step.name for step in kit.steps("all")} == {"view_limit"} | {
        step.name for step in kit.STEPS if step.part in kit.NEXT
    }
    done = check("limits", "--alone", "--simulate", "4GiB", "--out", tmp_path / "out")
    assert done.status == 0, done
    found = results(tmp_path / "out")
    assert [step["outcome"] for step in found["steps"]] == ["not shown here"]
    conditions = found["where"]["conditions"]
    assert conditions["granularity_bytes"]["least"] == 2 << 20
    assert conditions["attributes"]["export_to_file_descriptor"] == 1
    named = {"rdma", "rdma_with_virtual_memory", "export_to_fabric", "compute_mode", "clock_khz"}
    assert named <= set(conditions["attributes"])
    assert {"bar1_bytes", "mig_mode", "clock_mhz"} <= set(conditions["settings"])
    assert conditions["host"]["max_map_count"] == int(Path("/proc/sys/vm/max_map_count").read_text())
    assert "address_space_bytes" in conditions["host"]


def test_reader_who_has_seen_enough_ends_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hardware", "limits", "--alone", "--out", str(tmp_path / "out")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert (tmp_path / "out" / "table.txt").is_file()
