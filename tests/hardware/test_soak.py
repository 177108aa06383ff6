"""Whether values survive while memory is moved under running work: the soak under each allocator."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from frugal_alloc._command.doctor.driver import GIB, CannotTell, Gpu

from hardware.on_gpu import ALONE, SIMULATED, Figure

#: Of the time: ours is what is tested, the others show that the program itself is right.
_SECONDS = {"frugal": 120, "native": 20, "expandable": 20}
#: Of what is free: where nobody else uses the GPU, and where somebody does.
_SHARE = 0.6 if ALONE else 0.25
#: For a process to start, and for what is still to run when its time is over.
_AROUND_SECONDS = 60
_SEED = 14
_ORDER = re.compile(r"the order of (\d+) accesses was checked, (\d+) violations")


def soak(allocator: str, limit: int, before: str = "", rounds: int = 300, **variables: str) -> tuple[int, str, str]:
    """Its status, and what it prints, after the code `before`."""
    task = {"allocator": allocator, "limit": limit, "seed": _SEED, "seconds": _SECONDS[allocator]}
    task["rounds"] = rounds if SIMULATED else 1_000_000
    code = f"from hardware import soak\nimport sys, torch\nsys.argv = ['soak', {json.dumps(task)!r}]\n{before}\n"
    options = {"env": os.environ | {"FRUGAL_SIM_ORDER": "1"} | variables, "capture_output": True, "text": True}
    seconds = _SECONDS[allocator] + _AROUND_SECONDS
    done = subprocess.run([sys.executable, "-c", f"{code}soak.main()"], timeout=seconds, **options)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("allocator", _SECONDS)
def test_values_survive(allocator: str, gpu: Gpu, figure: Figure) -> None:
    if SIMULATED and allocator != "frugal":
        pytest.skip("a control of values, and this is the simulated GPU")
    limit = GIB if SIMULATED else min(16 * GIB, int(gpu.free_bytes() * _SHARE))
    # The older of two names: every torch from 2.9 on reads it.
    variables = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if allocator == "expandable" else {}
    status, out, err = soak(allocator, limit, **variables)
    if status and allocator != "frugal":
        pytest.skip(f"the control does not end here: {err.strip()[-300:]}")
    if status and "out of memory" in err and not ALONE:
        raise CannotTell(err.strip().splitlines()[-1])
    assert status == 0, err
    found = json.loads(out.splitlines()[-1])
    figure(f"{allocator}: tensors compared", found["compared"], "", f"{found}; seed {_SEED}, limit {limit >> 20} MiB")
    assert found["compared"] > 20 and (SIMULATED or found["wrong"] == 0), found
    if allocator == "frugal":
        assert min(found["stitches"], found["unmaps"], found["handed_over"]) > 0, "memory was not moved meanwhile"
    if SIMULATED:
        checked = _ORDER.search(err)
        assert checked and (checked[2], int(checked[1]) > 0) == ("0", True), err


@pytest.mark.skipif(not SIMULATED, reason="its control of the order of work is the simulated GPU's")
def test_soak_that_forgets_to_wait_is_seen() -> None:
    status, _, err = soak("native", GIB, "torch.cuda.Stream.wait_stream = lambda *_: None", rounds=60)
    assert status == 3 and _ORDER.search(err)[2] != "0"


@pytest.mark.skipif(not SIMULATED, reason="a real GPU is not asked to spoil values")
def test_soak_sees_a_tag_that_was_overwritten_and_no_other() -> None:
    overwrite = (
        "go_on = soak.Soak.go_on\n"
        "def spoil(self):\n"
        "    go_on(self)\n"
        "    if self.rounds == 7: torch.cuda.synchronize(); self._held[-1].tensor[-1] = -1\n"
        "soak.Soak.go_on = spoil\n"
    )
    _, out, _ = soak("frugal", GIB, overwrite, rounds=20, FRUGAL_SIM_VALUES="cpu")
    found = json.loads(out)
    assert (found["wrong"], found["compared"] > 10) == (1, True)
