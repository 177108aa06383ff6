"""Random operations on PyTorch, on two simulated GPUs that are nearly full; a hundred thousand if all tests are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MEMORY = 768 << 20  # of which the driver keeps 512 MiB
PROGRAMS = 20 if os.environ.get("FRUGAL_TEST_ALL") == "1" else 5  # a seed each
OPERATIONS = 5_000 * PROGRAMS
FIRST_SEED = 1 + PROGRAMS * (int(os.environ.get("FRUGAL_TEST_SEED", "1")) - 1)


def test_torch_agrees_with_a_naive_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "simulated_gpu" / "python"))
    import simulated_gpu

    environment = simulated_gpu.environment(MEMORY, gpus=2)
    environment["PYTHONPATH"] = str(ROOT / "bindings")
    command = [sys.executable, HERE / "torch_program.py", f"--operations={OPERATIONS}", f"--seed={FIRST_SEED}"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    with capsys.disabled():
        print("\n" + done.stdout.strip())
    assert done.stdout.startswith(f"{OPERATIONS} operations")
    # Nothing of it is left out because of how the numbers were drawn.
    for kind in ("ours", "native's", "out of memory", "capture", "use_pool", "export", "toggle", "limit"):
        counted = re.search(rf"(\d+) {kind}[,;]", done.stdout)
        assert counted is not None and int(counted[1]) >= PROGRAMS, f"{kind}: {done.stdout}"
