"""Programs without Python get the allocator by LD_PRELOAD."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import frugal_alloc
import pytest
from frugal_alloc._common import installation

ROOT = Path(__file__).resolve().parents[2]
BAZEL = shlex.split(os.environ.get("BAZEL", "bazel"))
TARGET = "//tests/bindings:libtorch_program"
SIMULATE = ("simulate", "--memory", "2GiB", "--")
RUN = (sys.executable, "-m", "frugal_alloc", "run", "--preload")


@pytest.fixture(scope="module")
def libtorch_program() -> Path:
    """A C++ program on LibTorch that was built without a word about us."""
    if shutil.which(BAZEL[0]) is None:
        pytest.skip("there is no Bazel to build the program with")
    options = ["--noshow_progress", "--ui_event_filters=-info"]
    subprocess.run([*BAZEL, "build", *options, TARGET], cwd=ROOT, check=True)
    return ROOT / ".bazel" / "bin" / "tests" / "bindings" / "libtorch_program"


def lines(outcome: Any) -> list[str]:
    return outcome.err.splitlines()[1:]  # the first says that the GPU is simulated


def test_program_alone_has_pytorchs_own_allocator(libtorch_program: Path, program: Any) -> None:
    outcome = program(*SIMULATE, libtorch_program)
    assert (outcome.status, outcome.out) == (0, "tensor on GPU 0\nsegments\n"), outcome


def test_run_preload_gives_it_ours(libtorch_program: Path, program: Any) -> None:
    outcome = program(*SIMULATE, *RUN, "--", libtorch_program)
    assert (outcome.status, outcome.out, lines(outcome)) == (0, "tensor on GPU 0\nhandles\n", []), outcome


def test_printed_path_gives_it_ours(libtorch_program: Path, program: Any, command: Any) -> None:
    path = command("preload").out
    assert path == f"{installation.LIBRARIES / 'frugal_alloc_preload.so'}\n"
    outcome = program(*SIMULATE, "env", f"LD_PRELOAD={path.strip()}:{_simulated()}", libtorch_program)
    assert (outcome.status, outcome.out) == (0, "tensor on GPU 0\nhandles\n"), outcome


def _simulated() -> str:
    import simulated_gpu

    return simulated_gpu.environment(1 << 30)["LD_PRELOAD"]


@pytest.mark.parametrize(
    ("changes", "memory", "told"),
    [
        ({"FRUGAL_ALLOC": "0"}, "segments", []),
        ({"FRUGAL_ALLOC": "1", "FRUGAL_ALLOC_CONF": "memory_limit:1GiB"}, "handles", []),
        (
            {"FRUGAL_ALLOC": "2"},
            "segments",
            ["frugal_alloc: not used: FRUGAL_ALLOC=2 is not possible; it is 0 (off) or 1 (on)"],
        ),
        (
            {"FRUGAL_ALLOC_CONF": "limit:1"},
            "segments",
            [
                'frugal_alloc: not used: FRUGAL_ALLOC_CONF: there is no setting "limit"; '
                "there are memory_limit, idle_release, track, publish, report_dir, self_check, suppressions, "
                "remap, pools, driver_reserve, host_reserve, driver_costs"
            ],
        ),
        (
            {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"},
            "handles",
            [
                "frugal_alloc does not follow max_split_size_mb (blocks of every size may be split, and their parts "
                "joined again)"
            ],
        ),
    ],
)
def test_environment_is_respected_and_the_program_goes_on(
    changes: dict[str, str], memory: str, told: list[str], libtorch_program: Path, program: Any
) -> None:
    outcome = program(*SIMULATE, *RUN, libtorch_program, env=os.environ | changes)
    assert (outcome.status, outcome.out, lines(outcome)) == (0, f"tensor on GPU 0\n{memory}\n", told), outcome


def test_torch_without_a_library_gets_one_line(libtorch_program: Path, program: Any, tmp_path: Path) -> None:
    alone = tmp_path / "frugal_alloc_preload.so"
    shutil.copyfile(installation.LIBRARIES / alone.name, alone)
    outcome = program(*SIMULATE, "env", f"LD_PRELOAD={alone}:{_simulated()}", libtorch_program)
    assert (outcome.status, outcome.out) == (0, "tensor on GPU 0\nsegments\n"), outcome
    assert len(lines(outcome)) == 1
    assert lines(outcome)[0].startswith("frugal_alloc: not used: there is no library for this program's torch: ")


@pytest.mark.usefixtures("no_gpu")
def test_pytorchs_own_error_without_a_gpu_is_as_before(libtorch_program: Path, program: Any) -> None:
    alone = subprocess.run([libtorch_program], capture_output=True, text=True)
    outcome = program("run", "--preload", libtorch_program)
    assert (outcome.status, outcome.out, outcome.err) == (alone.returncode, alone.stdout, alone.stderr)
    assert "error: " in outcome.out


def test_python_program_has_it_too_and_knows(program: Any, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, frugal_alloc\n"
        "tensor = torch.empty(1000, device='cuda')\n"
        "print(frugal_alloc.is_enabled(), frugal_alloc.memory_stats()['allocated_bytes'])\n"
    )
    package = str(Path(frugal_alloc.__file__).parents[1])
    outcome = program(*SIMULATE, *RUN, sys.executable, script, env=os.environ | {"PYTHONPATH": package})
    assert outcome.out == "True 4096\n", outcome


def test_program_without_torch_is_as_it_was(program: Any) -> None:
    outcome = program("run", "--preload", "sh", "-c", "echo $0 $1; exit 3", "a", "b")
    assert (outcome.status, outcome.out, outcome.err) == (3, "a b\n", "")
