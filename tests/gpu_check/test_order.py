"""The probes themselves keep to the order that they check: what they find wrong on hardware is the hardware's."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from frugal_alloc._simulation import simulated_gpu
from gpu_check_run import environment, run

CHECKED = re.compile(r"the order of (\d+) accesses was checked, (\d+) violations")


@pytest.mark.parametrize("step", ["aliasing", "driver_costs", "mappings", "placement", "remapping"])
def test_work_of_a_probe_is_in_order(step: str, tmp_path: Path) -> None:
    task = {
        "module": f"frugal_alloc._gpu_check.{step}",
        "folder": str(tmp_path),
        "seconds": 600,
        "share": 1.0,
        "parent": os.getpid(),
        "fills_the_device": True,
    }
    child = simulated_gpu.environment(4 << 30, base=environment(FRUGAL_SIM_ORDER="1"))
    done = run(sys.executable, "-m", "frugal_alloc._gpu_check.child", json.dumps(task), env=child, cwd=tmp_path)
    assert done.status == 0, done.err
    found = CHECKED.search(done.err)
    assert found
    assert (int(found[1]) > 0, int(found[2])) == (True, 0)
    checks = json.loads((tmp_path / "report.json").read_text())["checks"]
    assert [check for check in checks if check["outcome"] == "failed"] == []
