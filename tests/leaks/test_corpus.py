"""Programs as people write them: the line, the holder and the remedy of a leak are right; the innocent are silent.

Most of the innocent are left to FRUGAL_TEST_ALL=1.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import claims
import fork_server
import pytest
from frugal_alloc._simulation import simulated_gpu

HERE = Path(__file__).resolve().parent
# Beside the package, what stands for other people's packages in the programs.
PATHS = (fork_server.BINDINGS, HERE / "libraries" / "site-packages")
NAMES = claims.all_names() + (claims.names_of_innocents() if os.environ.get("FRUGAL_TEST_ALL") == "1" else [])


@pytest.mark.parametrize("name", NAMES)
def test_report_says_what_is_so(name: str, tmp_path: Path) -> None:
    claim = claims.read(name)
    base = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, PATHS))}
    environment = simulated_gpu.environment(4 << 30, values=claim.values, base=base)
    environment["FRUGAL_ALLOC_CONF"] = f"report_dir:{tmp_path}"
    command = [sys.executable, "-m", "frugal_alloc", "run", claims.PROGRAMS / f"{name}.py"]
    done = fork_server.run(command, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = tmp_path.glob("frugal-*.json")
    assert claims.shortcomings(claim, json.loads(file.read_text())) == [], f"{claim.kind}: {claim.about}"
