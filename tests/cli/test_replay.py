"""``frugal-alloc replay`` measures histories on the allocators that are installed."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import simulated_gpu
from frugal_alloc._command import options
from frugal_alloc._command import replay as replay_command
from frugal_alloc._planning.replay import replays
from frugal_alloc._planning.replay.history import ALLOCATE, EVENT, FREE, History
from recordings import MIB, Recording
from simulated_gpu import gpu_models

CALL_KINDS = {"create", "map", "set_access", "unmap", "release", "malloc", "free"}
CALL_KINDS |= {"sync", "event_record", "event_query", "stream_wait"}
PAGE = 2 * MIB


def replay(command: Any, *arguments: str | Path) -> list[dict[str, Any]]:
    outcome = command("replay", "--json", *arguments)
    assert (outcome.status, outcome.err) == (0, "")
    return json.loads(outcome.out)


@pytest.fixture
def put_on_gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Has this process's children see a GPU of so many bytes, which is as a real one to them."""

    def put(memory: int) -> None:
        for name, value in simulated_gpu.environment(memory, backing="none").items():
            monkeypatch.setenv(name, value)

    return put


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten buffers of 4 MiB and a bit, over and over, on two streams; all at once they fill 40 MiB."""
    recording = Recording()
    for step in range(20):
        for buffer in range(10):
            recording.allocate((step * 10 + buffer) * 64 * MIB, 4 * MIB + buffer, stream=buffer % 2)
        for buffer in range(10):
            recording.free((step * 10 + buffer) * 64 * MIB, 4 * MIB + buffer, stream=buffer % 2)
    return recording.write(tmp_path_factory.mktemp("histories") / "small.pickle")


@pytest.mark.parametrize("allocator", options.ALLOCATORS)
def test_json_has_every_figure(allocator: str, history: Path, command: Any) -> None:
    (row,) = replay(command, history, "--allocator", allocator)
    assert (row["history"], row["allocator"], row["events"]) == ("small.pickle", allocator, 400)
    assert (row["completed"], row["failed_at"]) == (True, None)
    assert row["peak_live_bytes"] == 40 * MIB + 45
    assert row["peak_live_bytes"] <= row["peak_reserved_bytes"] < row["peak_live_bytes"] + 60 * MIB
    assert row["utilisation"] == pytest.approx(row["peak_live_bytes"] / row["peak_reserved_bytes"], abs=1e-4)
    assert row["min_capacity_bytes"] is None
    assert row["capacity_bytes"] == 200 << 30
    assert set(row["driver_calls"]) == CALL_KINDS
    assert row["driver_ns"] > 0
    assert row["ns_per_pair"] > 0


def test_rows_come_in_the_order_asked_for_and_have_the_calls_that_allocators_are_known_for(
    history: Path, tmp_path: Path, command: Any
) -> None:
    other = Recording().allocate(MIB, 512).write(tmp_path / "other.pickle")
    rows = replay(command, other, history, "--allocator", "expandable,native,frugal,expandable")
    names = ["expandable", "native", "frugal"]
    assert [(row["history"], row["allocator"]) for row in rows] == [
        (name, allocator) for name in ("other.pickle", "small.pickle") for allocator in names
    ]
    calls = {row["allocator"]: row["driver_calls"] for row in rows[3:]}
    assert calls["native"]["malloc"] > 0
    assert calls["native"]["create"] == 0
    for name in ("frugal", "expandable"):
        assert calls[name]["malloc"] == 0, name
        assert calls[name]["create"] > 0, name
        assert calls[name]["map"] >= calls[name]["create"], name


@pytest.mark.parametrize("allocator", options.ALLOCATORS)
def test_history_that_does_not_fit_is_not_completed_and_no_error(allocator: str, history: Path, command: Any) -> None:
    (row,) = replay(command, history, "--allocator", allocator, "--memory", "30MiB")
    assert row["completed"] is False
    # Seven of the buffers fit into 30 MiB at most; those who take 20 MiB for each stream get less far.
    assert 1 <= row["failed_at"] <= 7
    assert row["peak_reserved_bytes"] <= 30 * MIB
    assert row["utilisation"] is None
    assert row["ns_per_pair"] is None


def test_a_gpu_gives_what_its_context_leaves_of_its_memory(history: Path, command: Any) -> None:
    model = gpu_models.find("T4")
    (row,) = replay(command, history, "--allocator", "frugal", "--gpu", "T4")
    assert row["capacity_bytes"] == model.memory_bytes - model.context_bytes
    (row,) = replay(command, history, "--allocator", "frugal", "--gpu", "T4", "--memory", "8GiB")
    assert row["capacity_bytes"] == 8 << 30


@pytest.mark.parametrize("allocator", options.ALLOCATORS)
def test_minimum_completes_and_a_step_less_does_not(allocator: str, history: Path, command: Any) -> None:
    (row,) = replay(command, history, "--allocator", allocator, "--memory", "min")
    minimum = row["min_capacity_bytes"]
    assert minimum % PAGE == 0
    assert row["peak_live_bytes"] <= minimum <= row["peak_reserved_bytes"] + PAGE
    (fits,) = replay(command, history, "--allocator", allocator, "--memory", str(minimum))
    assert fits["completed"] is True
    (tight,) = replay(command, history, "--allocator", allocator, "--memory", str(minimum - PAGE))
    assert tight["completed"] is False


@pytest.mark.parametrize("allocator", options.ALLOCATORS)
def test_memory_that_a_late_stream_uses_is_not_reused_before_it_is_done(
    allocator: str, tmp_path: Path, command: Any
) -> None:
    recording = Recording()
    size = 320 * MIB  # whole handles for all three: 2 MiB, 20 MiB and 64 MiB
    # Freed, but in use: the second cannot take its place. When the third comes, that can.
    recording.allocate(1 << 30, size).request_free(1 << 30, size).allocate(2 << 30, size)
    recording.complete_free(1 << 30, size).allocate(3 << 30, size)
    path = recording.write(tmp_path / "late.pickle")

    (row,) = replay(command, path, "--allocator", allocator)

    assert row["peak_live_bytes"] == 2 * size
    assert row["peak_reserved_bytes"] == 2 * size
    assert row["driver_calls"]["event_record"] == 1
    assert row["driver_calls"]["event_query"] >= 1


def test_settings_of_the_user_do_not_change_what_is_measured(
    history: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = replay(command, history, "--allocator", "native")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    monkeypatch.setenv("FRUGAL_SIM_FAULTS", "malloc@1+=out_of_memory")
    monkeypatch.setenv("FRUGAL_SIM_CONTEXT", str(1 << 30))
    (after,) = replay(command, history, "--allocator", "native")
    assert {**before, "ns_per_pair": 0} == {**after, "ns_per_pair": 0}


def measurement(**changes: Any) -> replays.Measurement:
    """With figures as wide as they get."""
    fields: dict[str, Any] = {field.name: None for field in dataclasses.fields(replays.Measurement)}
    fields |= {"history": "gpt_inference.json.xz", "allocator": "expandable", "peak_live_bytes": 190 << 30}
    fields |= {"peak_reserved_bytes": 199 << 30, "utilisation": 0.957, "min_capacity_bytes": 191 << 30}
    fields |= {"driver_calls": {"map": 1_234_567}, "driver_ns": 10**11, "ns_per_pair": 12_345.0, "host_ns": 10**11}
    return replays.Measurement(**fields | {"device": "real"} | changes)


def test_table_fits_80_columns_and_explains_each_column() -> None:
    failed = measurement(allocator="native", completed=False, utilisation=None, min_capacity_bytes=None)
    lines = list(replay_command._table([failed, measurement(), measurement(history="other")]))
    assert max(map(len, lines)) <= 80
    heads = re.split(r"  +", lines[1].strip())
    explained = "\n".join(lines[lines.index("", lines.index("") + 1) :])
    assert [head for head in heads[1:] if f"{head}: " not in explained] == []
    assert lines[2].split()[:3] == ["native", "199.00", "OOM"]
    simulated = list(replay_command._table([measurement(device="simulated", host_ns=None, min_capacity_bytes=None)]))
    assert not any("all ms" in line or "least" in line for line in simulated)


def test_worker_that_crashes_gets_one_line(history: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays.sys, "executable", "/bin/false")
    outcome = command("replay", history, "--allocator", "native")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == "frugal-alloc replay: small.pickle with native: the worker ended with status 1\n"


def test_worker_refuses_to_run_on_anything_but_the_simulated_gpu(
    history: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays.simulated_gpu, "environment", lambda memory, backing, base: base)
    outcome = command("replay", history, "--allocator", "native")
    assert outcome.status == 1
    assert outcome.err.endswith("native: this process does not run on the simulated GPU\n")


def _has_children(process: int) -> bool:
    for thread in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # The thread has ended.
            if (thread / "children").read_text():
                return True
    return False


def test_interrupted_replay_ends_with_status_130_and_without_a_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "frugal_alloc", "replay", "gpt60", "--memory", "min"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # It has come as far as to start workers.
    while not _has_children(process.pid):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out, err) == (130, "", "frugal-alloc replay: interrupted\n")


class TestSmallestCapacity:
    """The bisection, without a GPU."""

    def test_tries_capacities_above_what_was_reserved_when_that_does_not_complete(self) -> None:
        found = replays.smallest_capacity(100 * PAGE, 110 * PAGE, 1000 * PAGE, lambda size: size >= 300 * PAGE)
        assert found == 300 * PAGE


class TestConditions:
    """What else a measurement can tell, asked for by its own interface."""

    @staticmethod
    def history(events: list[tuple[int, ...]], **marks: Any) -> History:
        """(size, stream) allocates, (allocation,) frees."""
        numbers = itertools.count()
        packed = [
            EVENT.pack(ALLOCATE, next(numbers), *event, 0, 0)
            if len(event) == 2
            else EVENT.pack(FREE, *event, 0, 0, 0, 0)
            for event in events
        ]
        return History("made-up", b"".join(packed), 0, next(numbers), 2, **marks)

    @staticmethod
    def measure(history: History, allocator: str, capacity: int = 200 << 30, **options: Any) -> replays.Measurement:
        return replays.Replayer().measure(history, allocator, capacity, find_minimum=False, **options)

    # Five iterations, of which the first makes the memory that the others use.
    LOOP = tuple(event for number in range(5) for event in ((40 * MIB, 0), (number,)))

    def test_steady_state_of_a_loop_begins_after_three_iterations(self) -> None:
        steady = self.measure(self.history([*self.LOOP], turn_ends=(2, 4, 6, 8, 10)), "native").steady
        assert steady is not None
        assert (steady.from_event, steady.allocations) == (6, 2)
        assert (steady.driver_ns, set(steady.driver_calls.values())) == (0, {0})

    def test_steady_state_begins_where_the_warm_up_ends(self) -> None:
        steady = self.measure(self.history([*self.LOOP], warm_up_end=0), "native").steady
        assert steady is not None
        assert (steady.from_event, steady.allocations) == (0, 5)
        assert steady.driver_calls["malloc"] == 1
        assert steady.driver_ns == 180_000

    def test_steady_state_of_a_recording_is_its_second_pass(self) -> None:
        history = self.history([*self.LOOP])
        steady = self.measure(history, "native").steady
        assert steady is not None
        assert (steady.from_event, steady.allocations, steady.driver_ns) == (10, 5, 0)
        assert self.measure(history, "native", passes=1).steady is None

    def test_way_to_the_peak_ends_where_the_most_is_held_for_the_first_time(self) -> None:
        found = self.measure(self.history([(40 * MIB, 0), (30 * MIB, 0), (0,), (40 * MIB, 0)]), "native")
        assert found.peak_reserved_at == 1
        assert found.driver_ns_to_peak == found.driver_ns == 180_000 + 160_000

    def test_play_that_runs_out_of_memory_says_why(self) -> None:
        found = self.measure(self.history([(40 * MIB, 0)]), "native", capacity=30 * MIB)
        assert not found.completed
        assert found.error is not None
        assert "CUDA out of memory. Tried to allocate 40.00 MiB" in found.error
        assert "\n" not in found.error
        assert found.steady is None

    @pytest.mark.parametrize(("lag", "waits"), [(0, 0), (5, 1)])
    def test_stream_waits_for_another_only_while_that_is_behind(self, lag: int, waits: int) -> None:
        # There is room for one of the two buffers, and its memory has to change streams.
        history = self.history([(40 * MIB, 0), (0,), (40 * MIB, 1)])
        found = self.measure(history, "frugal", capacity=40 * MIB, stream_lag=lag)
        assert found.completed
        assert found.stream_lag == lag
        assert found.driver_calls["stream_wait"] == waits


@pytest.mark.parametrize("allocator", options.ALLOCATORS)
def test_on_a_real_gpu_time_is_the_walls_and_memory_what_the_allocator_says(
    allocator: str, history: Path, command: Any, put_on_gpu: Any
) -> None:
    # How much is left decides how large handles are: as much in both, but for what a limit does not count.
    arguments = [history, "--allocator", allocator, "--memory", str(3 << 30)]
    (simulated,) = replay(command, *arguments)
    put_on_gpu(6 << 30)
    (row,) = replay(command, *arguments, "--device", "real")
    assert (row["device"], row["completed"]) == ("real", True)
    assert row["peak_reserved_bytes"] == simulated["peak_reserved_bytes"]
    assert 0 < row["driver_ns"] < row["host_ns"]
    assert row["driver_ns"] != simulated["driver_ns"] and simulated["host_ns"] is None
    if allocator == "native":
        assert row["driver_calls"]["malloc"] == simulated["driver_calls"]["malloc"]
    if allocator == "frugal":
        # The simulated GPU counts the calls, too, with which ours tries virtual memory before it begins.
        tried = {"create": 2, "map": 4, "set_access": 2, "unmap": 2, "release": 2}
        calls = simulated["driver_calls"].items()
        assert row["driver_calls"] == {kind: count - tried.get(kind, 0) for kind, count in calls}
    else:
        assert row["driver_calls"]["malloc"] > 0


@pytest.mark.parametrize("allocator", options.ALLOCATORS)
def test_on_a_real_gpu_a_capacity_is_a_limit_and_a_gib_is_left(
    allocator: str, history: Path, command: Any, put_on_gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(memory: int, capacity: str) -> dict[str, Any]:
        put_on_gpu(memory)
        (row,) = replay(command, history, "--allocator", allocator, "--device", "real", "--memory", capacity)
        return row

    tight = play(4 << 30, "30MiB")
    assert not tight["completed"] and tight["peak_reserved_bytes"] <= 30 * MIB
    monkeypatch.setenv("FRUGAL_SIM_CONTEXT", "0")
    full = play((1 << 30) + 30 * MIB, "200GiB")
    assert not full["completed"] and full["peak_reserved_bytes"] <= 30 * MIB


def test_on_a_real_gpu_that_is_not_there_it_says_so(history: Path, command: Any) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU here")
    outcome = command("replay", "--device", "real", "--allocator", "native", history)
    assert outcome.status == 1
    assert outcome.err.count("\n") == 1 and "driver" in outcome.err


def test_table_says_whether_driver_times_were_measured(history: Path, command: Any, put_on_gpu: Any) -> None:
    assert "driver ms: what they take, as modelled" in command("replay", history, "--allocator", "native").out
    put_on_gpu(4 << 30)
    table = command("replay", "--device", "real", history, "--allocator", "native").out
    assert "driver ms: what they take, measured" in table and "all ms: " in table
