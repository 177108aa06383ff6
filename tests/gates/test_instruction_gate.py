"""The regression gate of the hot path: the instructions of an allocation and its free that need no driver call.

Callgrind counts them, native's and ours in one run, so that what compilers and libraries add on one machine or another
is added to both. The bars hold everywhere; the baseline is for review: a change that moves a ratio by more than
TOLERANCE writes it down anew with `pytest tests/gates --accept`.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BASELINE = HERE / "instruction_baseline.json"
BAZEL = shlex.split(os.environ.get("BAZEL", "bazel"))
TARGETS = ("//bench:instruction_bench", "//cuda/simulated:libraries")
# More, and valgrind finds no room for the addresses that are reserved on a GPU of this size.
GPU_BYTES = 16 << 30
SIZES = (512, 32 << 10, 1 << 20, 20 << 20, 1 << 30)
LIVE = (1_000, 1_000_000)

MOST_OF_NATIVE = 0.5
MOST_GROWTH = 1.5
# Compilers differ by a few percent.
TOLERANCE = 1.08


@pytest.fixture(scope="session")
def instructions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The instructions of one iteration by loop, such as "frugal pair 512"."""
    missing = [tool for tool in ("valgrind", BAZEL[0]) if shutil.which(tool) is None]
    assert not missing, f"{' and '.join(missing)} not found; run tools/setup"
    subprocess.run([*BAZEL, "build", "--noshow_progress", "--ui_event_filters=-info", *TARGETS], cwd=ROOT, check=True)
    simulated = ROOT / ".bazel" / "bin" / "cuda" / "simulated" / "exports"
    output = tmp_path_factory.mktemp("callgrind") / "out"
    command = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={output}"]
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(simulated),
        "LD_PRELOAD": str(simulated / "libcudart.so.13"),
        "FRUGAL_SIM_BACKING": "none",
        "FRUGAL_SIM_MEMORY": str(GPU_BYTES),
    }
    program = ROOT / ".bazel" / "bin" / "bench" / "instruction_bench"
    subprocess.run([*command, program], env=environment, check=True)
    return dict(map(_read_dump, output.parent.glob("out.*")))


def _read_dump(path: pathlib.Path) -> tuple[str, float]:
    text = path.read_text()
    name, iterations = re.search(r"^desc: Trigger: Client Request: (.+) (\d+)$", text, re.MULTILINE).groups()
    return name, int(re.search(r"^totals: (\d+)$", text, re.MULTILINE)[1]) / int(iterations)


@pytest.fixture(scope="session")
def ratios(instructions) -> dict[str, float]:
    """Ours as part of native's, by size; and the growth with the number of live blocks."""
    pairs = {
        f"pair {size}": instructions[f"frugal pair {size}"] / instructions[f"native pair {size}"] for size in SIZES
    }
    few, many = (instructions[f"frugal churn {live}"] for live in LIVE)
    churn = {"churn": few / instructions[f"native churn {LIVE[0]}"], "growth": many / few}
    return {name: round(ratio, 3) for name, ratio in (pairs | churn).items()}


@pytest.fixture(scope="session")
def baseline(ratios, request: pytest.FixtureRequest) -> dict[str, float]:
    if request.config.getoption("--accept", default=False):
        BASELINE.write_text(json.dumps(ratios, indent=2) + "\n")
    return json.loads(BASELINE.read_text())


@pytest.mark.parametrize("loop", [*(f"pair {size}" for size in SIZES), "churn"])
def test_takes_at_most_half_of_natives_instructions(ratios, loop):
    assert ratios[loop] <= MOST_OF_NATIVE


def test_a_million_live_blocks_cost_little_more_than_a_thousand(ratios):
    assert ratios["growth"] <= MOST_GROWTH


def test_costs_no_more_than_accepted(ratios, baseline):
    grown = {
        name: f"{baseline[name]} -> {ratio}" for name, ratio in ratios.items() if ratio > baseline[name] * TOLERANCE
    }
    assert not grown, "grown against instruction_baseline.json; if it is worth it: pytest tests/gates --accept"
