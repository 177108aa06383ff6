"""The C++ example, built as a user would with the CMake package, and run on the simulated GPU."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import frugal_alloc
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "trainer"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as a program."""
    build = tmp_path_factory.mktemp("build")
    for command in (
        ["cmake", "-S", EXAMPLE, "-B", build, f"-DCMAKE_PREFIX_PATH={frugal_alloc.cmake_prefix_path}"],
        ["cmake", "--build", build],
    ):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    return build / "train"


def simulated(train: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    simulate = [sys.executable, "-m", "frugal_alloc", "simulate", "--memory", "1GiB", "--"]
    return run(*simulate, train, *arguments, EXAMPLE / "tumors.csv")


def tensor_bytes(output: str) -> list[int]:
    """What each epoch left in tensors."""
    return [int(number) for number in re.findall(r"(\d+) bytes of GPU memory in tensors", output)]


def test_a_healthy_run_is_told_that_nothing_leaks(train):
    done = simulated(train)
    assert done.returncode == 0, done.stderr
    assert "frugal_alloc: no leak after 12 epochs" in done.stdout
    assert len(set(tensor_bytes(done.stdout)[1:])) == 1


def test_kept_losses_are_a_leak_of_the_evaluation_at_the_rate_at_which_memory_grows(train):
    done = simulated(train, "--keep-losses")
    assert done.returncode == 0, done.stderr
    live = tensor_bytes(done.stdout)
    growth = {later - earlier for earlier, later in itertools.pairwise(live[1:])}
    assert len(growth) == 1, live
    leaks = re.findall(r"^  leak    (\S+): .* kept in (\d+) blocks? of up to", done.stdout, re.MULTILINE)
    assert {site for site, _ in leaks} == {"evaluation"}, done.stdout
    rate = re.search(r"frugal_alloc: leak of (\S+) KiB per epoch, after 12 epochs", done.stdout)
    assert float(rate[1]) == pytest.approx(growth.pop() / 1024, abs=0.01)
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^```\n(frugal_alloc: leak.*?)^```", readme, re.MULTILINE | re.DOTALL)[1] in done.stdout


def test_a_run_that_is_too_short_to_tell_says_so(train):
    done = simulated(train, "--keep-losses", "--epochs", "3")
    assert "no leak after 3 epochs; one can be told after 9" in done.stdout


def test_it_learns(train):
    done = run(train, "--cpu", "--epochs", "4", EXAMPLE / "tumors.csv")
    assert done.returncode == 0, done.stderr
    right = [float(number) for number in re.findall(r"(\S+) % right", done.stdout)]
    assert right[-1] > 92


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--memory-limit", "plenty"], "memory_limit:plenty is not possible"),
        (["--lot"], 'do not understand "--lot"'),
    ],
)
def test_what_it_cannot_do_is_one_line_and_status_2(train, arguments, said):
    done = simulated(train, *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_without_a_gpu_it_says_so(train):
    done = run(train, EXAMPLE / "tumors.csv")
    if done.returncode == 0:
        pytest.skip("there is a GPU")
    assert done.returncode == 2
    assert done.stderr.startswith("train: no NVIDIA driver")
    assert len(done.stderr.splitlines()) == 1
