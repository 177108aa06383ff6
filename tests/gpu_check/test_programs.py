"""The steps that run whole programs: the soak, the binding tests, histories, other libraries."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.doctor import processes
from frugal_alloc._command.doctor.processes import Ended
from frugal_alloc._planning.replay import replays
from frugal_alloc._simulation import simulated_gpu
from gpu_check_run import GIB, environment, outcomes, report, run, said
from hardware import binding_tests, histories, kit, neighbours, sleeping, tagged_soak

SEEN = "frugal simulated GPU: the order of"
NOT_DONE = Ended(None, "", "")
#: Who fails, and what is then said of ours: what fails with every allocator says nothing of it.
FAILING = pytest.mark.parametrize(
    ("fails", "outcome"), [(["frugal"], "failed"), (["frugal", "native", "expandable"], "unknown")]
)


# --- the soak


def soak(allocator: str, before: str = "", values: str = "none", rounds: int = 300) -> Any:
    """Runs it on a simulated GPU that checks the order of work, after the code `before`."""
    task = {"allocator": allocator, "limit": GIB, "seed": 14, "seconds": 500, "rounds": rounds}
    code = f"from hardware import tagged_soak as soak\nimport sys, torch\nsys.argv = ['soak', {json.dumps(task)!r}]\n"
    started = simulated_gpu.environment(4 * GIB, values=values, base=environment(FRUGAL_SIM_ORDER="1"))
    return run(sys.executable, "-c", f"{code}{before}\nsoak.main()", env=started)


def test_soak_is_ordered_and_stitches_and_unmaps_with_ours() -> None:
    ended = soak("frugal")
    assert ended.status == 0, ended.err
    assert SEEN in ended.err and " 0 violations" in ended.err
    found = json.loads(ended.out)
    assert found["compared"] >= found["rounds"] > 0
    assert min(found["stitches"], found["unmaps"]) > 0
    assert found["handed_over"] > 20


def test_soak_that_forgets_to_wait_is_seen_by_the_order_checker() -> None:
    ended = soak("native", "torch.cuda.Stream.wait_stream = lambda *_: None", rounds=60)
    assert ended.status == 3
    assert SEEN in ended.err and " 0 violations" not in ended.err


def test_soak_sees_a_tag_that_was_overwritten_and_no_other() -> None:
    overwrite = (
        "go_on = soak.Soak.go_on\n"
        "def spoil(self):\n"
        "    go_on(self)\n"
        "    if self.rounds == 7: torch.cuda.synchronize(); self._held[-1].tensor[-1] = -1\n"
        "soak.Soak.go_on = spoil\n"
    )
    found = json.loads(soak("frugal", overwrite, values="cpu", rounds=20).out)
    assert (found["wrong"], found["compared"] > 10) == (1, True)


SOAKED = {"rounds": 9, "compared": 9, "handed_over": 2, "out_of_memory": 0, "wrong": 0, "stitches": 3, "unmaps": 4}


@pytest.mark.parametrize(
    ("found", "failed"),
    [
        ({}, []),
        ({"wrong": 1}, ["ours: values survive"]),
        ({"compared": 0}, ["ours: values survive"]),
        ({"unmaps": 0}, ["ours: memory was moved and unmapped meanwhile"]),
        ({"stitches": 0}, ["ours: memory was moved and unmapped meanwhile"]),
        ({"stitches": None, "unmaps": None}, []),
    ],
)
def test_soak_fails_by_wrong_values_and_by_moving_nothing(tmp_path: Path, found: Any, failed: list[str]) -> None:
    tagged_soak._judge(report(tmp_path), "ours", SOAKED | found, GIB)
    assert [name for name, outcome in outcomes(tmp_path).items() if outcome == "failed"] == failed


@FAILING
def test_soak_that_ends_with_no_allocator_says_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: list[str], outcome: str
) -> None:
    def ended(command: list[str], *_: Any) -> Ended:
        is_broken = json.loads(command[-1])["allocator"] in fails
        return Ended(1, "", "no torch") if is_broken else Ended(0, json.dumps(SOAKED | {"stitches": None}), "")

    monkeypatch.setattr(processes, "run", ended)
    monkeypatch.setattr(tagged_soak.machine, "describe", lambda: {"free_bytes": 64 * GIB})
    tagged_soak.run(report(tmp_path))
    assert outcomes(tmp_path)["frugal_alloc: the program ends"] == outcome


# --- sleep


def slept(way: str, before: str = "") -> Any:
    """What a way of sleeping says of itself on a simulated GPU with values, after the code `before`."""
    code = f"from hardware import sleeping\n{before}\nsleeping._carry_out({way!r}, {64 << 20}, 2)"
    started = simulated_gpu.environment(2 * GIB, values="cpu", base=environment())
    return json.loads(run(sys.executable, "-c", code, env=started).out)


@pytest.mark.parametrize("way", [sleeping.PINNED, sleeping.PAGEABLE, sleeping.SEGMENTS])
def test_what_slept_comes_back_and_others_have_its_memory_meanwhile(tmp_path: Path, way: str) -> None:
    found = slept(way)
    sleeping._tell(report(tmp_path), way, found)
    assert set(outcomes(tmp_path).values()) == {"passed"}
    assert found["tensors"] > 0 and found["copied"] >= found["live"]
    assert (found["copied"] > 1.1 * found["live"]) == (way == sleeping.SEGMENTS)


def test_what_does_not_come_back_is_seen(tmp_path: Path) -> None:
    lose = "import frugal_alloc\nsleep = frugal_alloc.sleep\n"
    lose += "frugal_alloc.sleep = lambda tags, **options: sleep(tags, **options | {'drop': tags})"
    sleeping._tell(report(tmp_path), sleeping.PINNED, slept(sleeping.PINNED, lose))
    assert outcomes(tmp_path)["ours, pinned: values come back"] == "failed"


# --- the binding tests


@pytest.fixture
def bindings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for binding tests; each test in it stands for a file's at one moment."""
    root = tmp_path / "a kit"
    monkeypatch.setattr(kit, "ROOT", root)
    folder = root / "tests" / "bindings"
    folder.mkdir(parents=True)
    return folder


def test_files_that_fail_hang_or_skip_all_are_told_so_and_the_others_are_carried_out(
    tmp_path: Path, bindings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endings = {
        "streams": ("print('5 passed, 2 skipped in 0.10s')", ("passed", "5 passed, 2 skipped")),
        "out_of_memory": ("assert 1 == 2", ("failed", "")),
        "tensors": ("pass", ("failed", "")),
        "place": ("print('1 failed, 12 passed, 24 warnings in 11.62s')", ("passed", "12 passed, 0 skipped")),
        "sharing": (
            "print('SKIPPED [2] a.py:7: there is only one GPU\\n2 skipped in 2.72s')",
            ("skipped", "2 skipped: there is only one GPU"),
        ),
        "processes": ("print('nothing')", ("failed", "0 passed, 0 skipped")),
    }
    for name, (body, _) in endings.items():
        (bindings / f"test_{name}.py").write_text(f"def test_it(): {body}")
    (bindings / "test_every_python.py").write_text("def test_it(): assert False, 'left out'")
    start, late = processes.run, "test_tensors.py::test_it"
    hang = lambda command, *more: NOT_DONE if late in str(command[-1]) else start(command, *more)  # noqa: E731
    monkeypatch.setattr(processes, "run", hang)
    binding_tests.run(report(tmp_path, seconds=500))
    found = {check["name"]: (check["outcome"], check["said"]) for check in said(tmp_path)}
    assert len(found) == len(endings)
    for name, (_, (outcome, words)) in endings.items():
        assert found[f"test_{name}.py test_it"][0] == outcome
        assert words in found[f"test_{name}.py test_it"][1]
    assert "1 == 2" in (tmp_path / "test_out_of_memory_py_test_it.txt").read_text()


def test_each_file_comes_at_one_moment_before_any_at_another(bindings: Path) -> None:
    for name in ("advice", "private_pools", "streams"):
        (bindings / f"test_{name}.py").write_text("def test_early(): pass\ndef test_late(): pass")
    items = binding_tests._items(bindings, kit.with_pytest(os.environ))
    files = ["test_streams.py", "test_private_pools.py", "test_advice.py"]
    assert items == [(file, moment) for moment in ("test_early", "test_late") for file in files]


def test_files_that_are_named_are_there() -> None:
    files = {path.name for path in (kit.ROOT / "tests" / "bindings").glob("test_*.py")}
    assert {*binding_tests.FIRST, *binding_tests.LEFT_OUT} <= files


def test_binding_tests_that_cannot_be_started_say_nothing_of_the_gpu(tmp_path: Path, bindings: Path) -> None:
    with pytest.raises(binding_tests.CannotTell, match="finds no binding tests"):
        binding_tests.run(report(tmp_path))


# --- histories


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Callable[..., replays.Measurement]:
    """Plays a history on a simulated GPU, which has no memory behind it."""
    for name, value in simulated_gpu.environment(64 * GIB, backing="none").items():
        monkeypatch.setenv(name, value)
    history = histories.history_files.read(histories.history_files.find("gpt60"))
    replayer = replays.Replayer(replays.REAL)
    return lambda allocator, capacity: replayer.measure(history, allocator, capacity, find_minimum=False, passes=1)


def test_history_that_does_not_fit_is_skipped_and_one_that_does_has_its_times(
    tmp_path: Path, played: Callable[..., replays.Measurement]
) -> None:
    histories.run(report(tmp_path, simulated=True))
    assert set(outcomes(tmp_path).values()) == {"passed"}
    assert len(said(tmp_path, "figures")) == 6
    found = played("frugal", GIB)
    for fits, outcome in ((False, "skipped"), (True, "failed")):
        histories._tell(report(tmp_path, simulated=True), "it", found, fits)
        (check,) = said(tmp_path)
        assert check["outcome"] == outcome and "out of memory at event" in check["said"]


@FAILING
def test_history_that_nobody_can_play_says_nothing_of_ours(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    played: Callable[..., replays.Measurement],
    fails: list[str],
    outcome: str,
) -> None:
    found = played("native", 60 * GIB)

    def measure(_: Any, history: Any, allocator: str, *__: Any, **___: Any) -> Any:
        if allocator in fails:
            raise replays.ReplayError("torch does not load")
        return found

    monkeypatch.setattr(replays.Replayer, "measure", measure)
    histories.run(report(tmp_path, simulated=True))
    assert outcomes(tmp_path)["gpt60: frugal"] == outcome


# --- other libraries


def test_library_that_is_absent_or_broken_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    neighbour = neighbours._Neighbour
    chosen = {
        neighbour("absent", "triton", ("no_such_module",)): "no_such_module is not installed",
        neighbour("no tool", "triton", (), ("no-such-tool",)): "there is no no-such-tool here",
        neighbour("broken", "no_such_program", (), on_simulated=True): "with PyTorch's own allocator, either",
        neighbour("does not load", "cupy", (), on_simulated=True): "cupy does not load: no CUDA 11",
    }
    spoiled = tmp_path / "modules"
    spoiled.mkdir()
    (spoiled / "cupy.py").write_text("raise ImportError('no CUDA 11')")
    monkeypatch.setattr(neighbours, "_NEIGHBOURS", tuple(chosen))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([environment()["PYTHONPATH"], str(spoiled)]))
    neighbours.run(report(tmp_path))
    assert outcomes(tmp_path) == {neighbour.title: "skipped" for neighbour in chosen}
    for check, reason in zip(said(tmp_path), chosen.values(), strict=True):
        assert reason in check["said"]


@pytest.mark.parametrize(
    ("ours", "seconds", "outcome"),
    [
        (Ended(1, "", "wrong values\n"), 100, "failed"),
        (NOT_DONE, 100, "failed"),
        # It had little time.
        (NOT_DONE, 60, "skipped"),
    ],
)
def test_library_that_only_fails_in_our_memory_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: Ended, seconds: float, outcome: str
) -> None:
    def ended(command: Any, seconds: float, variables: dict[str, str], *_: Any) -> Ended:
        return Ended(0, "done\n", "") if variables.get(neighbours.ALLOCATOR) == neighbours.NATIVE else ours

    monkeypatch.setattr(neighbours, "_NEIGHBOURS", (neighbours._Neighbour("it", "it", ()),))
    monkeypatch.setattr(processes, "run", ended)
    neighbours.run(report(tmp_path, seconds=seconds))
    assert outcomes(tmp_path) == {"it": outcome}


def test_sanitizer_is_reached_before_what_is_only_one_library_more() -> None:
    programs_in_order = [neighbour.program for neighbour in neighbours._NEIGHBOURS]
    assert programs_in_order.index("sanitized") < min(map(programs_in_order.index, ("compiled", "cupy", "jax")))


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        ("0", "0", "passed"),
        ("3", "2", "passed"),
        ("3", "0", "failed"),
        (None, "2", "failed"),
        # The sanitizer itself does not work.
        (None, None, "skipped"),
        ("3", None, "skipped"),
        # It was not done in its time.
        ("0", "late", "passed"),
        ("3", "late", "skipped"),
        ("late", "2", "skipped"),
    ],
)
def test_alarms_of_the_sanitizer_that_expandable_segments_have_too_are_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: str | None, theirs: str | None, outcome: str
) -> None:
    def started(_: Any, program: str, *__: Any, **___: Any) -> Ended:
        count = ours if program == "sanitized" else theirs
        if count == "late":
            return NOT_DONE
        return Ended(0, "" if count is None else f"========= ERROR SUMMARY: {count} errors\n", "")

    monkeypatch.setattr(neighbours, "_started", started)
    monkeypatch.setattr(neighbours.shutil, "which", lambda tool: tool)
    neighbours._sanitize(report(tmp_path), "sanitizer")
    assert outcomes(tmp_path) == {"sanitizer": outcome}
