"""What is concluded from what was found: of careless programs under three allocators, and of who uses the GPU."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._gpu_check import lifetimes, machine
from frugal_alloc._gpu_check.careless import NotOffered
from frugal_alloc._gpu_check.lifetimes import EXPANDABLE, NATIVE, OURS, _Ending
from frugal_alloc._gpu_check.step_report import FILE, StepReport

WELL, FAULT = _Ending(), _Ending(problem="ended by SIGSEGV")


def judged(folder: Path, simulated: bool = False, **endings: _Ending) -> dict[str, Any]:
    report = StepReport(folder, seconds=60, share=1.0, simulated=simulated)
    lifetimes._judge(report, "a program", {NATIVE: WELL, EXPANDABLE: WELL, OURS: WELL} | endings)
    (check,) = json.loads((folder / FILE).read_text())["checks"]
    return check


def test_what_is_harmless_with_native_has_to_be_so_with_ours(tmp_path: Path) -> None:
    assert judged(tmp_path)["outcome"] == "passed"
    assert judged(tmp_path, **{OURS: FAULT})["outcome"] == "failed"
    assert judged(tmp_path, simulated=True, **{OURS: FAULT})["outcome"] == "failed"


def test_program_that_native_does_not_bear_says_nothing_against_ours(tmp_path: Path) -> None:
    found = judged(tmp_path, **{OURS: FAULT, NATIVE: FAULT})
    assert found["outcome"] == "passed"
    assert found["said"].startswith("no worse than with native")


def test_how_the_controls_fared_is_said(tmp_path: Path) -> None:
    assert "expandable_segments: ended by SIGSEGV" in judged(tmp_path, **{EXPANDABLE: FAULT})["said"]


def test_what_is_not_offered_here_is_skipped(tmp_path: Path) -> None:
    found = judged(tmp_path, **{OURS: _Ending(not_offered="no green contexts")})
    assert (found["outcome"], found["said"]) == ("skipped", "no green contexts")


def _raises(torch: Any, unit: int) -> None:
    raise ValueError("wrong bytes\nand more")


def _faults(torch: Any, unit: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _hangs(torch: Any, unit: int) -> None:
    signal.pause()


def _has_nothing(torch: Any, unit: int) -> None:
    raise NotOffered("too old")


@pytest.mark.parametrize(
    "program, seconds, ending",
    [
        (_raises, 60, _Ending(problem="ValueError: wrong bytes")),
        (_faults, 60, FAULT),
        (_hangs, 1, _Ending(problem="no end within 1 s")),
        (_has_nothing, 60, _Ending(not_offered="too old")),
    ],
)
def test_program_ends_in_a_process_of_its_own(
    program: Callable[[Any, int], None], seconds: float, ending: _Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetimes, "_choose", lambda allocator: None)
    assert lifetimes._in_process(NATIVE, program, 1 << 20, seconds) == ending


@pytest.mark.parametrize(
    "used_gib, processes, alone",
    [(0.6, 1, True), (0.6, None, True), (0.6, 0, True), (0.6, 2, False), (40, 1, False), (40, None, False)],
)
def test_gpu_is_ours_alone_where_nobody_else_is_seen(used_gib: float, processes: int | None, alone: bool) -> None:
    where = {"memory_bytes": 80 << 30, "free_bytes": (80 << 30) - int(used_gib * (1 << 30)), "processes": processes}
    assert machine.is_nobody_elses(where) is alone
