"""How throughput shares its time, what it concludes from windows, and what becomes of programs that fail."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._common.messages import Refused
from gpu_check_run import GIB
from hardware import speeds, throughput, windows

from bench.training import ALLOCATORS, EXPANDABLE, NATIVE, OURS, UNTRACKED, programs

# --- Time, and its order


@pytest.mark.parametrize(("seconds", "each"), [(960, 2.0), (96, 2.0), (48, 1.0), (12, 0.25), (6, 0.25), (0, 0.25)])
def test_windows_of_less_time_are_shorter_but_not_without_end(seconds: float, each: float) -> None:
    assert windows.seconds_of_each(seconds, 4) == each


def test_time_is_shared_among_what_is_still_to_come() -> None:
    assert [windows.share(90, [2.0] * left + [1.0] * 3) for left in (3, 1)] == [20, 36]
    assert windows.share(-5, [1.0]) == 0


def test_in_eight_rounds_each_is_twice_in_each_place_and_behind_both_of_its_neighbours() -> None:
    rounds = [windows.order("abcd", number) for number in range(8)]
    for place in range(4):
        assert sorted(each[place] for each in rounds) == sorted("abcd" * 2)
    assert {each[each.index("b") - 1] for each in rounds if each[0] != "b"} == {"a", "c"}


def test_three_windows_that_agree_are_warm() -> None:
    assert windows.is_warm([90, 50, 51, 50.5])
    assert not windows.is_warm([50, 50.1])
    assert not windows.is_warm([50, 50, 52])


# --- What follows from windows


def test_interval_is_that_of_the_signed_rank_test_and_has_no_end_for_few_values() -> None:
    # Of twelve values the test's table has 13 as critical: the 14th smallest mean of two is the low end.
    assert windows.interval(range(12)) == (3.0, 5.5, 8.0)
    assert windows.interval([1.0] * 5) == (0.0, 1.0, float("inf"))
    assert windows.interval([1.0] * 6) == (1.0, 1.0, 1.0)


def rounds(seed: int, slower: float, count: int = 12, noise: float = 0.01) -> list[dict[str, float]]:
    """Windows whose steps differ from round to round, as their shapes do, and are each disturbed a little."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        shapes = chance.uniform(60, 140)
        factors = {NATIVE: 1.0, EXPANDABLE: 1.005, OURS: 1 + slower}
        found.append({name: shapes * factor * (1 + chance.gauss(0, noise)) for name, factor in factors.items()})
    return found


def verdicts(slower: float, **options: Any) -> list[str]:
    found = (windows.verdict(rounds(seed, slower, **options), OURS, (NATIVE, EXPANDABLE)) for seed in range(200))
    return [each.said for each in found]


def test_three_per_cent_are_found_and_half_a_per_cent_is_not_claimed() -> None:
    assert verdicts(0.03).count(windows.SLOWER) >= 198
    assert windows.SLOWER not in verdicts(0.005)
    assert windows.SLOWER not in verdicts(0.0)


def test_what_is_as_fast_is_told_where_windows_are_quiet_or_many() -> None:
    assert verdicts(0.0, noise=0.003).count(windows.FASTER) > 190
    assert verdicts(0.0, count=48).count(windows.FASTER) > 190
    assert windows.FASTER not in verdicts(0.03)


def test_it_is_compared_with_the_faster_of_those_that_are_there() -> None:
    found = [{NATIVE: 10.0, EXPANDABLE: 8.0, OURS: 9.0}] * 8
    assert windows.verdict(found, OURS, (NATIVE, EXPANDABLE)) == (windows.SLOWER, (8 / 9,) * 3, EXPANDABLE)
    without = [{NATIVE: 10.0, OURS: 9.0}] * 8
    assert windows.verdict(without, OURS, (NATIVE, EXPANDABLE)).said == windows.FASTER
    assert windows.verdict([{OURS: 9.0}], OURS, (NATIVE, EXPANDABLE)) is None


# --- The step, with programs that take their time from a clock of the test


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0


class Program:
    """In the place of a process: what it answers takes as long as it says."""

    clock: Clock
    chance: random.Random
    slower: float
    #: What an allocator answers in a program, instead of what was asked for.
    endings: dict[tuple[str, str], dict[str, Any]]

    def __init__(self, cell: speeds.Cell, allocator: str, quick: bool, niceness: int = 0) -> None:
        self._ending, self._allocator = self.endings.get((cell.program, allocator)), allocator

    def ask(self, *request: Any) -> None:
        self._request = request

    def answer(self, seconds: float) -> dict[str, Any]:
        if self._ending:
            self.clock.seconds += seconds if self._ending["outcome"] == throughput._LATE else 0
            return dict(self._ending)
        name, *arguments = self._request
        if name == "window":
            return self._window(*arguments)
        self.clock.seconds += 1
        profile = {"steps": 20, "stacks": {f"{self._allocator}.py": 3.0}, "kernels": {"add": [1.0, 2]}, "calls": {}}
        return {"outcome": "completed", "done": {"stitches": 2}, "garbage": {"collections": 0, "ms": 0.0}, **profile}

    def _window(self, seed: int | str, steps: int) -> dict[str, Any]:
        slower = self.slower if self._allocator in (OURS, UNTRACKED) else 0.0
        milliseconds = 20 * (1 + slower) * (1 + self.chance.gauss(0, 0.005))
        self.clock.seconds += milliseconds * steps / 1e3
        figures = dict.fromkeys(("host_ms", "gpu_ms", "driver_ms", "driver_calls", "retries"), 1.0)
        return {"outcome": "completed", "ms": milliseconds, "steps": steps, "reserved_bytes": GIB, **figures}

    def end(self) -> None:
        pass


Carry = Callable[..., throughput.Throughput]


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Carry:
    """Carries it out in so many seconds of the clock; what was measured before is added to."""

    def carry_out(seconds: float = 480, slower: float = 0.0, earlier: Any = None, **endings: Any) -> Any:
        clock = Clock()
        by_place = {tuple(place.split("__")): ending for place, ending in endings.items()}
        own = {"clock": clock, "chance": random.Random(1), "slower": slower, "endings": by_place}
        monkeypatch.setattr(throughput, "Process", type("Own", (Program,), own))
        chosen = {name: programs.Program(f"program {name}", lambda *_: None) for name in ("first", "second")}
        monkeypatch.setattr(programs, "PROGRAMS", chosen)
        measured = throughput.Throughput(tmp_path, seconds, earlier or {}, simulated=False)
        monkeypatch.setattr(measured, "seconds_left", lambda: seconds - clock.seconds)
        measured.carry_out()
        return measured

    return carry_out


def rows(folder: Path) -> str:
    return (folder / speeds.ROWS).read_text()


def cells(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / speeds.MEASURED).read_text())


def test_planted_slow_down_of_three_per_cent_is_found_and_explained(measure: Carry, tmp_path: Path) -> None:
    assert any(line.startswith("program first, ample: slower: 0.97") for line in measure(slower=0.03).failed)
    assert "program first, ample: slower: 0.97" in rows(tmp_path)
    assert "stacks: +0.000: +3.000 ours.py; " in rows(tmp_path)
    assert max(len(cell["why"]) for cell in cells(tmp_path)) <= 10
    profile = json.loads((tmp_path / "profile-first-ample.json").read_text())
    assert {found["steps"] for found in profile.values()} == {20} and OURS in profile


def test_half_a_per_cent_is_not_claimed(measure: Carry) -> None:
    assert measure(slower=0.005).failed == []


def test_each_program_has_windows_of_all_in_ample_and_tight_memory(measure: Carry, tmp_path: Path) -> None:
    for seconds, least in ((470, 12), (25, 1)):
        measure(seconds=seconds)
        found = cells(tmp_path)
        assert [(cell["program"], cell["capacity"]) for cell in found] == [
            (program, capacity) for capacity in ("ample", "1.05") for program in ("first", "second")
        ]
        for cell in found:
            assert len(cell["rounds"]) >= least
            assert all(set(each) == set(ALLOCATORS) for each in cell["rounds"])
        assert {cell["capacity_bytes"] for cell in found} == {None, int(1.05 * GIB)}


FULL = {"outcome": "out of memory", "problem": "OutOfMemoryError"}
BROKEN = {"outcome": "failed", "problem": "RuntimeError: no kernel"}


def test_program_that_fails_with_one_allocator_is_a_row(measure: Carry, tmp_path: Path) -> None:
    assert measure(first__native=FULL, second__expandable=BROKEN).failed == []
    assert rows(tmp_path).count("out of memory") == 2 and rows(tmp_path).count("RuntimeError: no kernel") == 2
    assert "program first, ample: as fast" in rows(tmp_path)


def test_program_that_ours_alone_does_not_complete_has_failed(measure: Carry, tmp_path: Path) -> None:
    assert measure(first__ours=FULL).failed == ["program first, ample: ours: out of memory"]
    assert "program first, 1.05: ours has not completed it with ample memory" in rows(tmp_path)
    assert cells(tmp_path)[-1]["rounds"]


def test_program_that_nobody_completes_says_nothing_of_ours(measure: Carry) -> None:
    nobody = {f"first__{allocator}": BROKEN for allocator in ALLOCATORS}
    assert measure(**nobody).failed == []


def test_process_that_hangs_leaves_time_for_the_others(measure: Carry, tmp_path: Path) -> None:
    measure(first__native={"outcome": throughput._LATE, "problem": ""})
    assert "native          not done in its time" in rows(tmp_path)
    assert cells(tmp_path)[-1]["rounds"]


def test_rows_are_whole_after_each_round(measure: Carry, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, write = [], speeds.write

    def watch(found: list[speeds.Cell], folder: Path, simulated: bool) -> None:
        write(found, folder, simulated)
        seen.append((folder / speeds.ROWS).read_text())

    monkeypatch.setattr(speeds, "write", watch)
    measure()
    assert len(seen) > 40
    for text in seen:
        assert text.endswith("\n")
        assert all(
            f"program {program}, {capacity}: " in text
            for program in ("first", "second")
            for capacity in ("ample", "1.05")
        )


def test_run_adds_to_what_an_earlier_one_measured(measure: Carry, tmp_path: Path) -> None:
    measure()
    first = cells(tmp_path)
    measure(seconds=100, earlier=speeds.read(tmp_path))
    for earlier, later in zip(first, cells(tmp_path), strict=True):
        count = len(earlier["rounds"])
        assert later["rounds"][:count] == earlier["rounds"] and len(later["rounds"]) > count
        assert (later["steps"], later["capacity_bytes"]) == (earlier["steps"], earlier["capacity_bytes"])


WHERE = {"GPU": "a GPU", "torch": "2.11", "commit": "abc"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"GPU": "another"}, "is of GPU another, and this is a GPU; run without --add"),
        ({"torch": "2.10"}, "is of torch 2.10, and this is 2.11"),
        ({"commit": "def"}, "is of commit def, and this is abc"),
        (None, "has nothing that throughput measured"),
    ],
)
def test_run_adds_only_to_one_of_the_same(tmp_path: Path, changed: dict[str, Any] | None, said: str) -> None:
    (tmp_path / speeds.MEASURED).write_text("[]")
    if changed is not None:
        (tmp_path / "where.json").write_text(json.dumps(WHERE | changed))
    if said:
        with pytest.raises(Refused, match=said):
            speeds.earlier_cells(tmp_path, WHERE)
    else:
        assert speeds.earlier_cells(tmp_path, WHERE) == {}
