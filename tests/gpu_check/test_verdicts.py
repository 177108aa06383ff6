"""What is concluded from what was found: of careless programs under three allocators, and of who uses the GPU."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.doctor import careless, lifetimes, machine
from frugal_alloc._command.doctor.careless import NotOffered
from frugal_alloc._command.doctor.lifetimes import EXPANDABLE, NATIVE, OURS, _Ending
from frugal_alloc._simulation import simulated_gpu
from gpu_check_run import environment, report, run, said
from hardware import conditions

WELL, FAULT = _Ending(), _Ending(problem="ended by SIGSEGV")
FULL = _Ending(problem="OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB.")


def judged(folder: Path, simulated: bool = False, alone: bool = True, **endings: _Ending) -> dict[str, Any]:
    step = report(folder, simulated=simulated, fills_the_device=alone)
    lifetimes._judge(step, "a program", {NATIVE: WELL, EXPANDABLE: WELL, OURS: WELL} | endings)
    (check,) = said(folder)
    return check


@pytest.mark.parametrize(
    ("endings", "where", "outcome", "within"),
    [
        ({}, {}, "passed", "unharmed"),
        # What is harmless with native has to be so with ours.
        ({OURS: FAULT}, {}, "failed", "ended by SIGSEGV"),
        ({OURS: FAULT}, {"simulated": True}, "failed", "ended by SIGSEGV"),
        ({EXPANDABLE: FAULT}, {}, "passed", "expandable_segments: ended by SIGSEGV"),
        # What native does not bear, or nobody, says nothing against ours.
        ({OURS: FAULT, NATIVE: FAULT}, {}, "passed", "no worse than with native"),
        ({OURS: FAULT, NATIVE: FAULT, EXPANDABLE: FAULT}, {}, "skipped", "every allocator"),
        # Memory that others hold says nothing of ours.
        ({OURS: FULL}, {"alone": False}, "unknown", "out of memory"),
        ({OURS: FULL}, {"alone": True}, "failed", "out of memory"),
        ({OURS: _Ending(not_offered="no green contexts")}, {}, "skipped", "no green contexts"),
    ],
)
def test_careless_program_is_judged_by_how_it_fares_with_others(
    tmp_path: Path, endings: dict[str, _Ending], where: dict[str, bool], outcome: str, within: str
) -> None:
    found = judged(tmp_path, **where, **endings)
    assert found["outcome"] == outcome
    assert within in found["said"]


def _refuses(allocator: str) -> None:
    raise RuntimeError("frugal_alloc has no library for PyTorch 9.9")


def test_library_that_cannot_be_enabled_says_nothing_of_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetimes, "_choose", _refuses)
    found = judged(tmp_path, **{OURS: lifetimes._in_process(OURS, _hangs, 1 << 20, 60)})
    assert found["outcome"] == "unknown"
    assert "no library for PyTorch 9.9" in found["said"]


def test_controls_are_carried_out_only_where_ours_has_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out = []

    def ends(allocator: str, program: Callable[[Any, int], None], *_: Any) -> _Ending:
        carried_out.append((program.__name__, allocator))
        bad = program is careless.unmapped_behind_work and allocator == OURS
        return FAULT if bad else WELL

    monkeypatch.setattr(lifetimes, "_in_process", ends)
    lifetimes.run(report(tmp_path, simulated=True))
    unmapped = [("unmapped_behind_work", allocator) for allocator in (OURS, NATIVE, EXPANDABLE)]
    assert carried_out[:4] == [("missing_record_stream", OURS), *unmapped]
    assert {allocator for _, allocator in carried_out[4:]} == {OURS}
    assert len(carried_out) == 4 + 3


def _raises(torch: Any, unit: int) -> None:
    raise ValueError("wrong bytes\nand more")


def _faults(torch: Any, unit: int) -> None:
    faulthandler.disable()  # pytest's would tell of it
    os.kill(os.getpid(), signal.SIGSEGV)


def _hangs(torch: Any, unit: int) -> None:
    signal.pause()


def _has_nothing(torch: Any, unit: int) -> None:
    raise NotOffered("too old")


def _children() -> set[str]:
    """Of this process, also those that have ended and that nobody has waited for."""
    return {child for path in Path("/proc/self/task").glob("*/children") for child in path.read_text().split()}


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
    before = _children()
    assert lifetimes._in_process(NATIVE, program, 1 << 20, seconds) == ending
    assert _children() == before


@pytest.mark.parametrize(
    "others, alone",
    # A context of somebody's that a container does not show takes a hundred MiB or more.
    [((0, 0), True), ((18, 0), True), ((18, 1), False), ((110, 0), False), ((40 << 10, 2), False), (None, False)],
)
def test_gpu_is_ours_alone_where_nobody_else_is_seen(others: tuple[int, int] | None, alone: bool) -> None:
    seen = others and {"used_bytes": others[0] << 20, "processes": others[1]}
    assert conditions.is_nobody_elses(seen) is alone


def test_what_others_have_of_a_gpu_is_asked_before_our_own_context_takes_memory() -> None:
    child = simulated_gpu.environment(2 << 30, base=environment())
    done = run(sys.executable, "-m", "hardware.conditions", env=child)
    found = json.loads(done.out)
    assert found["others"] == {"processes": 0, "used_bytes": 0}
    assert conditions.is_nobody_elses(found["others"])


def test_torch_that_was_installed_without_bytecode_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for compiled in (True, False):
        monkeypatch.setattr(machine, "_has_bytecode", lambda module, compiled=compiled: compiled)
        found = machine.environment(tmp_path, {"PYTHONDONTWRITEBYTECODE": "1"})
        prefix = None if compiled else str(tmp_path / "cache" / "python")
        assert ("PYTHONDONTWRITEBYTECODE" in found, found.get("PYTHONPYCACHEPREFIX")) == (compiled, prefix)
    monkeypatch.undo()
    (tmp_path / "bare_module_of_this_test.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not machine._has_bytecode("bare_module_of_this_test")
    assert machine._has_bytecode("no_such_module_anywhere")
