"""The steps that run whole programs: the soak, the binding tests, trainings, histories, other libraries."""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._gpu_check import binding_tests, histories, kit, neighbours, programs, tagged_soak, trainings
from frugal_alloc._gpu_check.step_report import FILE, StepReport
from frugal_alloc._replay import replays
from frugal_alloc._simulation import simulated_gpu
from gpu_check_run import environment, run

GIB = 1 << 30
SEEN = "frugal simulated GPU: the order of"


def report(folder: Path, simulated: bool = False, share: float = 1.0) -> StepReport:
    return StepReport(folder, seconds=100, share=share, simulated=simulated)


def said(folder: Path, kind: str = "checks") -> list[dict[str, Any]]:
    return json.loads((folder / FILE).read_text())[kind]


def outcomes(folder: Path) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in said(folder)}


# --- the soak


def soak(allocator: str, before: str = "", values: str = "none", rounds: int = 300) -> Any:
    """Runs it on a simulated GPU that checks the order of work, after the code `before`."""
    task = {"allocator": allocator, "limit": GIB, "seed": 14, "seconds": 500, "rounds": rounds}
    code = f"from frugal_alloc._gpu_check import soak\nimport sys, torch\nsys.argv = ['soak', {json.dumps(task)!r}]\n"
    started = simulated_gpu.environment(4 * GIB, values=values, base=environment(FRUGAL_SIM_ORDER="1"))
    if allocator == "expandable":
        started["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    return run(sys.executable, "-c", f"{code}{before}\nsoak.main()", env=started)


@pytest.mark.parametrize("allocator", tagged_soak.ALLOCATORS)
def test_soak_is_ordered_and_stitches_and_unmaps_with_ours(allocator: str) -> None:
    ended = soak(allocator)
    assert ended.status == 0, ended.err
    assert SEEN in ended.err and " 0 violations" in ended.err
    found = json.loads(ended.out)
    assert found["compared"] >= found["rounds"] > 0
    assert found["handed_over"] > 20
    if allocator == "frugal":
        assert found["stitches"] > 0
        assert found["unmaps"] > 0


def test_soak_that_forgets_to_wait_is_seen_by_the_order_checker() -> None:
    ended = soak("native", "torch.cuda.Stream.wait_stream = lambda *_: None", rounds=60)
    assert ended.status == 3
    assert SEEN in ended.err and " 0 violations" not in ended.err


def test_soak_sees_a_tag_that_was_overwritten_and_no_other() -> None:
    assert json.loads(soak("frugal", values="cpu", rounds=20).out)["wrong"] == 0
    overwrite = (
        "go_on = soak.Soak.go_on\n"
        "def spoil(self):\n"
        "    go_on(self)\n"
        "    if self.rounds == 7: torch.cuda.synchronize(); self._held[-1].tensor[-1] = -1\n"
        "soak.Soak.go_on = spoil\n"
    )
    assert json.loads(soak("frugal", overwrite, values="cpu", rounds=20).out)["wrong"] == 1


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
    good = {"rounds": 9, "compared": 9, "handed_over": 2, "out_of_memory": 0, "wrong": 0, "stitches": 3, "unmaps": 4}
    tagged_soak._judge(report(tmp_path), "ours", good | found, GIB)
    assert [name for name, outcome in outcomes(tmp_path).items() if outcome == "failed"] == failed


# --- the binding tests


def test_files_that_fail_or_hang_are_failed_and_the_others_are_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = tmp_path / "tests" / "bindings"
    tests.mkdir(parents=True)
    (tests / "test_good.py").write_text("def test_it(): print('5 passed, 2 skipped in 0.10s')")
    (tests / "test_bad.py").write_text("def test_it(): assert 1 == 2")
    (tests / "test_hangs.py").write_text("import threading\ndef test_it(): threading.Event().wait()")
    (tests / "test_last.py").write_text("def test_it(): print('1 passed in 0.10s')")
    names = ("test_good.py", "test_bad.py", "test_hangs.py", "test_last.py")
    monkeypatch.setattr(binding_tests, "FILES", names)
    monkeypatch.setattr(binding_tests, "_MOST_SECONDS_A_FILE", 20.0)
    monkeypatch.setattr(kit, "root", lambda: tmp_path)
    binding_tests.run(report(tmp_path))
    assert outcomes(tmp_path) == dict(zip(names, ("passed", "failed", "failed", "passed"), strict=True))
    assert [check["said"] for check in said(tmp_path)][::3] == ["5 passed, 2 skipped", "1 passed, 0 skipped"]
    assert "1 == 2" in (tmp_path / "test_bad.txt").read_text()


def test_every_file_of_binding_tests_is_carried_out_or_left_out_on_purpose() -> None:
    left_out = {"test_python_stack.py", "test_liveness.py", "test_segments.py"}
    # On simulated GPUs of their own.
    left_out |= {"test_module_variables.py", "test_growth_outside.py", "test_unified_memory.py"}
    files = {path.name for path in (kit.root() / "tests" / "bindings").glob("test_*.py")}
    assert files == {*binding_tests.FILES} | left_out


def test_what_is_cut_short_on_purpose_has_not_failed(tmp_path: Path) -> None:
    programs.say_overrun(report(tmp_path, share=0.5), "it")
    assert outcomes(tmp_path) == {"it": "skipped"}
    programs.say_overrun(report(tmp_path), "it")
    assert outcomes(tmp_path) == {"it": "failed"}


def test_program_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    code = "import os, time\nprint(os.fork(), flush=True)\ntime.sleep(600)"
    ended = programs.run([sys.executable, "-c", code], 5.0, os.environ)
    assert ended.status is None and ended.said == "not done in its time"
    assert all(_ends(child) for child in map(int, ended.out.split()) if child != 0)


def _ends(process: int) -> bool:
    """It was told to; the kernel takes its time to carry that out."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    with os.fdopen(handle):
        return bool(select.select([handle], [], [], 60)[0])


# --- trainings and histories


def training(**changed: Any) -> dict[str, Any]:
    named = {"workload": "gpt2", "capacity": "ample", "allocator": "frugal", "repeat": 0}
    return named | {"outcome": "completed", "problem": None, "window_driver_ns": 3_000_000} | changed


def setup(**changed: Any) -> dict[str, Any]:
    return {"left_out": [], "steps": 30, "simulated": False} | changed


BROKEN: dict[str, Any] = {"outcome": "failed", "problem": "no module named datasets"}


def test_trainings_tell_speeds_and_driver_time_of_a_real_gpu_alone(tmp_path: Path) -> None:
    bars = [{"what": "gpt2, ample memory: ours ÷ native", "bar": "≥ 0.99", "measured": "1.010"}]
    found = {"setup": setup(), "runs": [training()], "bars": bars}
    trainings._tell(report(tmp_path), found)
    assert [figure["value"] for figure in said(tmp_path, "figures")] == [1.01, 3.0]
    trainings._tell(report(tmp_path, simulated=True), found)
    assert [figure["value"] for figure in said(tmp_path, "figures")] == [None, None]


@pytest.mark.parametrize(
    ("runs", "bad"),
    [
        ([training(outcome="out_of_memory")], True),
        ([training(outcome="failed", problem="it broke")], True),
        # How the others fare is a figure, or their own fault.
        ([training(allocator="native", outcome="out_of_memory")], False),
        ([training(allocator="native", outcome="failed", problem="it broke")], False),
        # Nobody can do that one.
        ([training(workload="large", allocator=name, **BROKEN) for name in ("native", "frugal")], False),
        ([training(workload="large", outcome="out_of_memory"), training(workload="large", allocator="native")], True),
    ],
)
def test_training_that_ours_alone_does_not_complete_has_failed(tmp_path: Path, runs: list[Any], bad: bool) -> None:
    left_out = ["resnet50 was left out: no."]
    trainings._tell(report(tmp_path), {"setup": setup(left_out=left_out), "runs": [training(), *runs], "bars": []})
    assert ("failed" in outcomes(tmp_path).values()) == bad
    assert outcomes(tmp_path)["resnet50"] == "skipped"


def test_trainings_that_say_nothing_of_the_gpu_are_unknown(tmp_path: Path) -> None:
    broken = [training(allocator=name, **BROKEN) for name in ("native", "frugal")]
    trainings._tell(report(tmp_path), {"setup": setup(), "runs": broken, "bars": []})
    assert outcomes(tmp_path)["ours completes every training"] == "unknown"
    # PyTorch saw no GPU.
    trainings._tell(report(tmp_path), {"setup": setup(simulated=True), "runs": [training()], "bars": []})
    assert outcomes(tmp_path) == {"the trainings come to their end": "unknown"}


def test_history_that_does_not_fit_is_skipped_and_one_that_does_has_its_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in simulated_gpu.environment(64 * GIB, backing="none").items():
        monkeypatch.setenv(name, value)
    histories.run(report(tmp_path, simulated=True))
    assert set(outcomes(tmp_path).values()) == {"passed"}
    assert len(said(tmp_path, "figures")) == 6
    replayer = replays.Replayer(replays.REAL)
    history = histories.history_files.read(histories.history_files.find("gpt60"))
    found = replayer.measure(history, "frugal", 1 * GIB, find_minimum=False, passes=1)
    for fits, outcome in ((False, "skipped"), (True, "failed")):
        histories._tell(report(tmp_path, simulated=True), "it", found, fits)
        (check,) = said(tmp_path)
        assert check["outcome"] == outcome and "out of memory at event" in check["said"]


@pytest.mark.parametrize(
    ("fails", "outcome"), [(["frugal"], "failed"), (["native", "expandable", "frugal"], "unknown")]
)
def test_history_that_nobody_can_play_says_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: list[str], outcome: str
) -> None:
    class Broken(replays.Replayer):
        def measure(self, history: Any, allocator: str, *_: Any, **__: Any) -> Any:
            if allocator in fails:
                raise replays.ReplayError("torch does not load")
            return played

    for name, value in simulated_gpu.environment(64 * GIB, backing="none").items():
        monkeypatch.setenv(name, value)
    history = histories.history_files.read(histories.history_files.find("gpt60"))
    played = replays.Replayer(replays.REAL).measure(history, "native", 60 * GIB, find_minimum=False, passes=1)
    monkeypatch.setattr(replays, "Replayer", Broken)
    histories.run(report(tmp_path, simulated=True))
    assert outcomes(tmp_path)["gpt60: frugal"] == outcome


@pytest.mark.parametrize("step", ["binding_tests", "trainings", "histories"])
def test_step_whose_programs_are_not_there_says_nothing_of_the_gpu(step: str, tmp_path: Path) -> None:
    task = {"module": f"frugal_alloc._gpu_check.{step}", "folder": str(tmp_path), "parent": os.getpid()}
    task |= {"seconds": 60, "share": 1.0, "fills_the_device": False}
    code = "import sys\nfrom frugal_alloc._gpu_check import child, kit\nkit.root = lambda: None\nsys.exit(child.main())"
    ended = run(sys.executable, "-c", code, json.dumps(task), env=environment(), cwd=tmp_path)
    assert ended.status == 0, ended
    assert outcomes(tmp_path) == {"all of it": "unknown"}
    assert "not beside the package" in said(tmp_path)[0]["said"]


# --- other libraries


def test_library_that_is_absent_or_broken_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = neighbours._Neighbour
    chosen = (
        one("absent", "triton", ("no_such_module",)),
        one("no tool", "triton", (), ("no-such-tool",)),
        one("broken with all allocators", "no_such_program", (), on_simulated=True),
        one("does not load", "cupy", (), on_simulated=True),
    )
    spoiled = tmp_path / "modules"
    spoiled.mkdir()
    (spoiled / "cupy.py").write_text("raise ImportError('no CUDA 11')")
    monkeypatch.setattr(neighbours, "_NEIGHBOURS", chosen)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([environment()["PYTHONPATH"], str(spoiled)]))
    neighbours.run(report(tmp_path))
    assert outcomes(tmp_path) == {neighbour.title: "skipped" for neighbour in chosen}
    assert said(tmp_path)[3]["said"] == "cupy does not load: no CUDA 11"
    assert [check["said"] for check in said(tmp_path)][:2] == [
        "no_such_module is not installed",
        "there is no no-such-tool here",
    ]


def test_library_that_only_fails_in_our_memory_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(command: Any, seconds: float, variables: dict[str, str], *_: Any) -> programs.Ended:
        native = variables.get(neighbours.ALLOCATOR) == neighbours.NATIVE
        return programs.Ended(0, "done\n", "") if native else programs.Ended(1, "", "wrong values\n")

    monkeypatch.setattr(neighbours, "_NEIGHBOURS", (neighbours._Neighbour("it", "it", ()),))
    monkeypatch.setattr(neighbours.programs, "run", ended)
    neighbours.run(report(tmp_path))
    assert outcomes(tmp_path) == {"it": "failed"}


@pytest.mark.parametrize(
    ("fails", "outcome"), [(["frugal"], "failed"), (["frugal", "native", "expandable"], "unknown")]
)
def test_soak_that_ends_with_no_allocator_says_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: list[str], outcome: str
) -> None:
    good = {"rounds": 9, "compared": 9, "handed_over": 2, "out_of_memory": 0, "wrong": 0, "stitches": None}

    def ended(command: list[str], *_: Any) -> programs.Ended:
        allocator = json.loads(command[-1])["allocator"]
        return programs.Ended(1, "", "no torch") if allocator in fails else programs.Ended(0, json.dumps(good), "")

    monkeypatch.setattr(tagged_soak.programs, "run", ended)
    monkeypatch.setattr(tagged_soak, "_free_bytes", lambda: 64 * GIB)
    tagged_soak.run(report(tmp_path))
    assert outcomes(tmp_path)["frugal_alloc: the program ends"] == outcome


@pytest.mark.parametrize(("seconds", "outcome"), [(100.0, "failed"), (60.0, "skipped")])
def test_library_that_had_little_time_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, outcome: str
) -> None:
    monkeypatch.setattr(neighbours, "_NEIGHBOURS", (neighbours._Neighbour("slow", "slow", ()),))
    monkeypatch.setattr(neighbours.programs, "run", lambda *_: programs.Ended(None, "", ""))
    neighbours.run(StepReport(tmp_path, seconds=seconds, share=1.0, simulated=False))
    assert outcomes(tmp_path) == {"slow": outcome}


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
        ("late", "late", "skipped"),
    ],
)
def test_alarms_of_the_sanitizer_that_expandable_segments_have_too_are_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: str | None, theirs: str | None, outcome: str
) -> None:
    def started(_: StepReport, program: str, *__: Any, **___: Any) -> programs.Ended:
        count = ours if program == "sanitized" else theirs
        if count == "late":
            return programs.Ended(None, "", "")
        return programs.Ended(0, "" if count is None else f"========= ERROR SUMMARY: {count} errors\n", "")

    monkeypatch.setattr(neighbours, "_started", started)
    monkeypatch.setattr(neighbours.shutil, "which", lambda tool: tool)
    neighbours._sanitize(report(tmp_path), "sanitizer")
    assert outcomes(tmp_path) == {"sanitizer": outcome}
