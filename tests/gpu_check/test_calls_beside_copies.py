"""What is measured beside running work is measured while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from frugal_alloc._gpu_check import driver_costs
from frugal_alloc._gpu_check.driver import Driver
from frugal_alloc._gpu_check.step_report import FILE, StepReport

NOT_READY = 600


class Gpu(Driver):
    """Every call that is no copy takes one unit of time, and a copy takes some of them, after those before it.

    Attributes:
        busy_rounds: how many times memory was mapped and unmapped again while copies ran from beginning to end.
        rounds: how many times in all.
    """

    def __init__(self, copy_lasts: int) -> None:
        self._copy_lasts, self._left = copy_lasts, 0
        self.device = self.rounds = self.busy_rounds = 0

    def function(self, name: str) -> Callable[..., int]:
        return lambda *_: self._carry_out(name)

    def memory_info(self) -> tuple[int, int]:
        return 1 << 40, 1 << 40

    def _carry_out(self, name: str) -> int:
        if name == "cuStreamQuery":
            return NOT_READY if self._left else 0
        if name == "cuMemcpyDtoDAsync_v2":
            self._left += self._copy_lasts
        elif name == "cuStreamSynchronize":
            self._left = 0
        else:
            self._left = max(0, self._left - 1)
        if name == "cuMemAddressFree":  # the last call of a round
            self.rounds += 1
            self.busy_rounds += self._left > 0
        return 0


@pytest.mark.parametrize("copy_lasts", [1, 8, 100])
def test_calls_beside_copies_are_those_through_which_copies_ran(tmp_path: Path, copy_lasts: int) -> None:
    gpu = Gpu(copy_lasts)
    driver_costs._beside_copies(gpu, StepReport(tmp_path, seconds=60, share=1.0, simulated=False))
    details = json.loads((tmp_path / FILE).read_text())["details"]
    counted = {detail["name"]: detail["microseconds"]["count"] for detail in details}
    assert counted["unmap"] == gpu.busy_rounds
    assert 0.9 * gpu.rounds < gpu.busy_rounds


def test_copies_that_never_last_are_said(tmp_path: Path) -> None:
    driver_costs._beside_copies(Gpu(copy_lasts=0), StepReport(tmp_path, seconds=60, share=1.0, simulated=False))
    (check,) = json.loads((tmp_path / FILE).read_text())["checks"]
    assert check["outcome"] == "skipped"
    assert "no copies lasted" in check["said"]
