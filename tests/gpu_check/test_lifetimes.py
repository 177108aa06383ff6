"""What is concluded of programs that are careless with streams, under three allocators."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from frugal_alloc._command.doctor import careless, lifetimes
from frugal_alloc._command.doctor.lifetimes import EXPANDABLE, NATIVE, OURS, Ending
from frugal_alloc._command.doctor.probe import Report

WELL, FAULT = Ending(), Ending("failed", "ended by SIGSEGV")
FULL = Ending("failed", "OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB.")
Said = Callable[[], dict[str, Any]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return lambda: json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("needs", ["values", "time", "a real driver"])
@pytest.mark.parametrize("good", [True, False])
def test_simulated_gpu_passes_and_fails_nothing_that_it_does_not_have(needs: str, good: bool, said: Said) -> None:
    for simulated, asked, outcome in (
        (True, needs, "not shown here"),
        (False, needs, "passed" if good else "failed"),
        (True, "calls", "passed" if good else "failed"),
    ):
        Report(60, simulated).check("it", good, "found", asked)
        assert said()["outcome"] == outcome


@pytest.mark.parametrize(
    ("endings", "simulated", "outcome", "within"),
    [
        ({}, False, "passed", "unharmed"),
        # What is harmless with native has to be so with ours.
        ({OURS: FAULT}, False, "failed", "ended by SIGSEGV"),
        ({OURS: FAULT}, True, "failed", "ended by SIGSEGV"),
        ({EXPANDABLE: FAULT}, False, "passed", "expandable_segments: ended by SIGSEGV"),
        # What native does not bear, or nobody, says nothing against ours.
        ({OURS: FAULT, NATIVE: FAULT}, False, "passed", "no worse than with native"),
        ({OURS: FAULT, NATIVE: FAULT, EXPANDABLE: FAULT}, False, "skipped", "every allocator"),
        # Memory that others hold says nothing of ours.
        ({OURS: FULL}, False, "unknown", "out of memory"),
        ({OURS: Ending("skipped", "no green contexts")}, False, "skipped", "no green contexts"),
    ],
)
def test_careless_program_is_judged_by_how_it_fares_with_others(
    endings: dict[str, Ending], simulated: bool, outcome: str, within: str, said: Said
) -> None:
    lifetimes.judge(Report(60, simulated), "a program", {NATIVE: WELL, EXPANDABLE: WELL, OURS: WELL} | endings)
    found = said()
    assert found["outcome"] == outcome
    assert within in found["said"]


def test_controls_are_carried_out_only_where_ours_has_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    carried_out = []

    def ends(allocator: str, program: Callable[[Any, int], None], *_: Any) -> Ending:
        carried_out.append((program.__name__, allocator))
        return FAULT if (program, allocator) == (careless.unmapped_behind_work, OURS) else WELL

    monkeypatch.setattr(lifetimes, "in_process", ends)
    lifetimes.run(Report(60, simulated=True))
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
    raise careless.NotOffered("too old")


@pytest.mark.parametrize(
    ("program", "seconds", "ending"),
    [
        (_raises, 60, Ending("failed", "ValueError: wrong bytes")),
        (_faults, 60, FAULT),
        (_hangs, 1, Ending("failed", "no end within 1 s")),
        (_has_nothing, 60, Ending("skipped", "too old")),
    ],
)
def test_program_ends_in_a_process_of_its_own(
    program: Callable[[Any, int], None], seconds: float, ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetimes, "_choose", lambda allocator: None)
    assert lifetimes.in_process(NATIVE, program, 1 << 20, seconds) == ending


def test_library_that_cannot_be_enabled_says_nothing_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(allocator: str) -> None:
        raise RuntimeError("frugal_alloc has no library for PyTorch 9.9")

    monkeypatch.setattr(lifetimes, "_choose", refuses)
    found = lifetimes.in_process(OURS, _hangs, 1 << 20, 60)
    assert found.outcome == "unknown" and "no library for PyTorch 9.9" in found.said
