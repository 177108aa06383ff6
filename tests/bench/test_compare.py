"""bench compare: what it plays, how it compares, and what it refuses."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._planning.replay.history import ALLOCATE, EVENT

from bench import __main__ as bench
from bench import compare, suite
from bench.comparison import choices, demands, tables
from bench.comparison.figures import RATIOS, Case, Figures, Play, Steady
from bench.comparison.policy import PlayError, Policy
from bench.comparison.rivals import Rivals
from bench.generators.recorder import GIB, MIB, Recorder
from bench.suite import AMPLE, HANDLE_BYTES, Workload
from bench.table import NONE

ROOT = Path(__file__).resolve().parent.parent.parent
Plays = dict[float, Play]


@pytest.fixture(scope="module")
def policy(program: Path) -> Policy:
    return Policy(program)


def history(sizes: list[int], iterations: int = 1) -> Any:
    """Tensors of these sizes, all live at a time, and then freed: so many iterations."""
    recorder = Recorder()
    for _ in range(iterations):
        recorder.free_all([recorder.allocate(size) for size in sizes])
    return recorder.history("made_up")


def played(held: int = GIB, driver_ms: float = 10, **changes: Any) -> Play:
    """A play that completed with nothing to complain of."""
    fields: dict[str, Any] = dict.fromkeys((field.name for field in dataclasses.fields(Play)), 0)
    fields |= {"failed_at": None, "held_bytes": held, "driver_ns": round(driver_ms * 1e6), "steady": steady()}
    return Play(**(fields | changes))


def steady(driver_ns: int = 0, calls: int = 0, event_calls: int = 0, allocations: int = 1_000) -> Steady:
    return Steady(driver_ns, allocations, calls, event_calls)


def figures(plays: dict[float, Play] | None = None, smallest: int | None = GIB, **changes: Any) -> Figures:
    """The same play at all ratios but those in `plays`."""
    return Figures(GIB, {ratio: played(**changes) for ratio in RATIOS} | (plays or {}), smallest)


def case(
    ours: Figures | None = None, is_recorded: bool = True, bound: int = 0, other: Figures | None = None, **changes: Any
) -> Case:
    """Of a history of 1 GiB, for which expandable segments take 10 ms and native 1.1 GiB; `other` is with homes=0."""
    made = dataclasses.replace(history([GIB]), **changes)
    rivals = {
        "expandable": figures(held=round(1.05 * GIB), smallest=round(1.05 * GIB)),
        "native": figures(held=round(1.05 * GIB), smallest=round(1.1 * GIB)),
    }
    return Case(
        Workload(made, is_recorded), bound, {"ours": ours or figures(), **rivals, "homes=0": other or figures()}
    )


def demand(of: Case, what: str) -> demands.Demand:
    (row,) = [row for row in demands.demands([of]) if row.what.startswith(what)]
    return row


class TestPlaying:
    def test_a_play_counts_what_the_driver_was_asked_for(self, policy: Policy) -> None:
        found = policy.play(history([64 * MIB]), GIB, lag=0, changes={})
        assert found.completed
        assert found.held_bytes == 64 * MIB
        assert found.creates > 0
        assert found.driver_ns > 0

    def test_driver_time_up_to_the_peak_leaves_out_what_comes_after(self, policy: Policy) -> None:
        recorder = Recorder()
        tensors = [recorder.allocate(32 * MIB) for _ in range(4)]
        filled = policy.play(recorder.history("filled"), 128 * MIB, lag=0, changes={})
        assert filled.driver_ns_to_peak == filled.driver_ns > 0
        recorder.free_all(tensors[::2])
        recorder.allocate(64 * MIB)
        moved = policy.play(recorder.history("moved"), 128 * MIB, lag=0, changes={})
        assert moved.driver_ns_to_peak == filled.driver_ns < moved.driver_ns

    def test_a_history_too_large_ends_at_the_request_that_found_no_memory(self, policy: Policy) -> None:
        found = policy.play(history([600 * MIB, 600 * MIB]), GIB, lag=0, changes={})
        assert (found.failed_at, found.completed, found.steady) == (1, False, None)

    def test_a_second_play_on_a_warm_cache_is_the_steady_state(self, policy: Policy) -> None:
        found = policy.play(history([64 * MIB, 3 * MIB]), GIB, lag=0, changes={})
        assert found.steady == steady(allocations=2)

    def test_an_option_changes_what_is_played(self, policy: Policy) -> None:
        def creates(pages: int) -> int:
            return policy.play(history([256 * MIB]), 8 * GIB, lag=0, changes={"largest_piece": pages}).creates

        assert creates(1) == 128 > creates(4)

    def test_streams_that_are_behind_are_waited_for_where_memory_is_short(self, policy: Policy) -> None:
        recorder = Recorder()
        recorder.free(recorder.allocate(64 * MIB, stream=0))
        recorder.free(recorder.allocate(64 * MIB, stream=1))
        waits = [
            policy.play(recorder.history("two streams"), 64 * MIB, lag, changes={}, steady=False) for lag in (0, 100)
        ]
        assert [found.stream_waits + found.host_waits > 0 for found in waits] == [False, True]
        assert all(found.completed for found in waits)

    def test_smallest_capacity_is_one_that_completes(self, policy: Policy) -> None:
        made = history([64 * MIB, 32 * MIB, 4 * MIB])
        found = policy.measure(Workload(made, is_recorded=False), {}, (AMPLE,))
        assert found.smallest_bytes == 100 * MIB
        assert policy.play(made, 100 * MIB, lag=0, changes={}).completed
        assert not policy.play(made, 98 * MIB, lag=0, changes={}).completed

    def test_a_program_that_ends_otherwise_is_told_with_what_it_played(self, policy: Policy) -> None:
        with pytest.raises(PlayError, match=r"^made_up in 1 bytes: policy_player: there is no option x x=1$"):
            policy.play(history([1]), 1, lag=0, changes={"x": 1})

    @pytest.mark.parametrize(
        ("arguments", "events", "reason"),
        [
            (["/dev/stdin", "1", "0", "0"], b"no events", "/dev/stdin is no file of events"),
            (["/dev/stdin", "1", "0", "0"], b"", "/dev/stdin is no file of events"),
            (["/nonexistent", "1", "0", "0"], b"", "/nonexistent cannot be read"),
            (["/dev/stdin", "-1", "0", "0"], b"", "-1 is no number"),
            (["/dev/stdin", "1", "0", "0", "homes"], b"", "homes is given no number"),
            (["/dev/stdin", "1", "0", "0", "round=1"], b"", "there is no option round"),
        ],
    )
    def test_what_the_program_cannot_play_gets_one_line_and_status_2(
        self, program: Path, arguments: list[str], events: bytes, reason: str
    ) -> None:
        done = subprocess.run([program, *arguments], input=events, capture_output=True)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.decode() == f"policy_player: {reason}\n"


@pytest.mark.parametrize(("live", "ratio", "expected"), [(1000, 1.2, 1200), (1000, 1.001, 1004), (100, 1.02, 104)])
def test_capacity_is_a_ratio_or_four_handles_more(live: int, ratio: float, expected: int) -> None:
    workload = Workload(history([live * HANDLE_BYTES]), is_recorded=False)
    assert workload.capacity(ratio) == expected * HANDLE_BYTES


def test_in_ample_memory_streams_have_no_work() -> None:
    workload = Workload(history([MIB]), is_recorded=False)
    assert (workload.stream_lag(AMPLE), workload.stream_lag(1.25)) == (0, suite.DEFAULT_STREAM_LAG)


def test_all_sizes_grow_by_the_same_and_fill_eight_tenths_of_the_gpu() -> None:
    whole = history([100 * MIB, 1_000, 28 * MIB], iterations=2)
    made = Workload(whole, is_recorded=True).scaled(80 * GIB).history
    sizes = [event[2] for event in EVENT.iter_unpack(made.events) if event[0] == ALLOCATE]
    factor = 64 * GIB / whole.peak_live_bytes
    assert [size / factor for size in sizes[:3]] == pytest.approx([100 * MIB, 1_000, 28 * MIB], rel=1e-3)
    assert all(size % 512 == 0 for size in sizes)
    assert made.peak_live_bytes == sum(sizes[:3]) == pytest.approx(64 * GIB, rel=1e-6)
    assert (made.name, made.event_count) == ("made_up@80GiB", whole.event_count)


def test_every_option_of_the_policy_and_no_other_is_tried_otherwise(policy: Policy) -> None:
    present = policy.options()
    tried = choices.alternatives(present)
    assert set(choices.VALUES) <= {one.option for one in tried} == set(present)
    assert all(one.value != present[one.option] == one.instead_of for one in tried)


class TestDemands:
    @pytest.mark.parametrize(
        ("what", "good", "bad"),
        [
            ("driver time at 4x ", {AMPLE: played(driver_ms=40)}, {AMPLE: played(driver_ms=40.1)}),
            (
                "driver time up to",
                {1.25: played(driver_ns_to_peak=21_000_000)},
                {4: played(driver_ns_to_peak=21_000_000)},
            ),
            ("held at 4x", {AMPLE: played(held=round(1.05 * GIB))}, {AMPLE: played(held=round(1.06 * GIB))}),
            ("in use at 1.25x", {1.25: played(held=round(GIB / 0.991))}, {1.25: played(held=round(GIB / 0.989))}),
            ("host waits at 1.25x", {1.02: played(host_waits=1)}, {1.25: played(host_waits=1)}),
            ("host waits at 1.02x", {1.005: played(host_waits=1)}, {1.02: played(host_waits=1)}),
            ("host waits at 1.005x", {1.02: played(host_waits=1)}, {1.005: played(host_waits=1)}),
            ("worst request", {}, {1.005: played(worst_excess_ns=1_100_000)}),
            ("warm driver time", {}, {AMPLE: played(steady=steady(driver_ns=200_000))}),
            ("event calls", {AMPLE: played(steady=steady(calls=1))}, {AMPLE: played(steady=steady(event_calls=1))}),
        ],
    )
    def test_each_is_of_the_figure_that_it_names(
        self, what: str, good: dict[float, Play], bad: dict[float, Play]
    ) -> None:
        for plays, short in ((good, []), (bad, ["made_up"])):
            assert demand(case(figures(plays)), what).short() == short

    def test_a_play_that_fails_reaches_nothing_but_waits_for_nothing(self) -> None:
        failed = case(figures(dict.fromkeys(RATIOS, played(failed_at=3, steady=None)), smallest=None))
        for what in ("smallest GPU / live", "driver time at 4x ", "in use at 1.25x", "warm driver time", "event calls"):
            row = demand(failed, what)
            assert (row.worst(), row.short()) == (None, ["made_up"])
        assert not any(row.what.startswith("host waits") for row in demands.demands([failed]))

    def test_fixed_loops_alone_may_not_call_the_driver(self) -> None:
        calls = figures({AMPLE: played(steady=steady(calls=1))})
        row = "driver calls in fixed loops at 4x"
        assert demand(case(calls, turn_ends=(1, 2)), row).short() == ["made_up"]
        assert row not in {other.what for other in demands.demands([case(calls)])}

    @pytest.mark.parametrize(
        ("smallest", "bound", "short"),
        [
            (round(1.005 * GIB), 0, False),
            (GIB + 8 * MIB, 0, False),  # Four handles are granted.
            (round(1.01 * GIB), 0, True),
            (round(1.01 * GIB), round(1.006 * GIB), False),
            (None, 0, True),
        ],
    )
    def test_smallest_capacity_may_be_near_the_bound(self, smallest: int | None, bound: int, short: bool) -> None:
        row = demand(case(figures(smallest=smallest), bound=bound), "smallest GPU / live, recorded")
        assert row.short() == (["made_up"] if short else [])


class TestTables:
    def test_a_line_has_ours_beside_theirs(self) -> None:
        failed = played(failed_at=3, steady=None)
        found = case(figures({1.02: failed, 1.005: failed}), bound=GIB)
        both, theirs = ["10 / 10"] * 3, [f"{NONE} / 10"] * 2
        assert tables.times([found]).rows == [["made_up", *both, *theirs, "0.00 / 0.00", "0.00"]]
        both, theirs = ["1.0000 / .9524"] * 3, [f"{NONE} / .9524"] * 2
        assert tables.memory([found]).rows == [["made_up", *both, *theirs, "1.0000 / 1.0500 / 1.1000", "1.0000"]]

    def test_choices_are_compared_over_recorded_and_generated_histories(self) -> None:
        cases = [case(other=figures(driver_ms=12)), case(is_recorded=False, other=figures(held=2 * GIB))]
        level, changed = choices.table(cases, [choices.Alternative("homes", 0, 8, "no such price")]).rows
        assert level == ["(as it is)", *["1.00 / 1.00"] * 2, *["1.0000 / 1.0000"] * 2, "0.00 / 0.00", "0 / 0"]
        half = "0 / \N{MINUS SIGN}.5000"
        assert changed == ["`homes` 8: 0 (no such price)", *["+20 % / 0 %"] * 2, half, *["0 / 0"] * 3]

    def test_a_play_that_fails_counts_as_that_alone(self) -> None:
        failed = played(driver_ms=99, failed_at=3, steady=None)
        found = choices.difference([(figures(), figures({1.25: failed})), (figures(), figures(driver_ms=20))])
        assert (found[1], found[-1]) == ("+100 %", "+1")
        alone = choices.difference([(figures(), figures(dict.fromkeys(RATIOS, failed), smallest=None))])
        assert alone == [*[NONE] * 5, "+4"]


def test_what_was_measured_of_rivals_is_kept_and_measured_again_if_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = Workload(history([8 * MIB, 40 * MIB]), is_recorded=False)
    first = Rivals(tmp_path).measure(workload, "native")
    assert first.plays[AMPLE].completed
    again = Rivals(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(again.replayer, "measure", None)
        assert again.measure(workload, "native") == first
    (kept,) = tmp_path.iterdir()
    for text in ("", "{}", "[1]", '{"plays": {"4.0": {}}, "live_bytes": 1}'):
        kept.write_text(text)
        assert Rivals(tmp_path).measure(workload, "native") == first


class TestCommandLine:
    @pytest.fixture(autouse=True)
    def kept(self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compare, "KEPT", tmp_path_factory.getbasetemp() / "rivals")

    @pytest.fixture
    def run(self, program: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
        """Plays one recording alone; what is printed."""

        def run(*arguments: str) -> str:
            assert bench.main(["--program", str(program), "compare", "--only", "mosaic", *arguments]) == 0
            captured = capsys.readouterr()
            assert captured.err == "" and str(program) not in captured.out
            return captured.out

        return run

    def test_tables_and_figures_are_the_same_each_time(self, run: Callable[..., str], tmp_path: Path) -> None:
        path = tmp_path / "figures.json"
        arguments = ["--choices", "homes", "--json", str(path), "--csv", str(tmp_path)]
        written = [(run(*arguments), path.read_text()) for _ in range(2)]
        assert written[0] == written[1]
        out, text = written[0]
        assert f"`bazel run -c opt //bench -- compare --only mosaic {' '.join(arguments)}`" in out
        assert "| mosaic |" in out
        assert "| `homes` 1: 0 (handles stay where they were moved) |" in out
        mosaic = json.loads(text)["histories"]["mosaic"]
        assert list(mosaic["figures"]) == ["ours", "expandable", "native", "homes=0"]
        assert mosaic["bound_bytes"] <= mosaic["figures"]["ours"]["smallest_bytes"]
        names = {"choices", "demands", "driver_time", "driver_time_to_peak", "memory"}
        assert {file.stem for file in tmp_path.glob("*.csv")} == names
        _, row = csv.reader((tmp_path / "memory.csv").read_text().splitlines())
        assert f"| {' | '.join(row)} |" in out

    def test_recordings_of_the_user_are_played_under_their_folders_name(
        self, run: Callable[..., str], tmp_path: Path
    ) -> None:
        recording = tmp_path / "mosaic.pickle.xz"
        shutil.copy(ROOT / "bench" / "histories" / recording.name, recording)
        out = run("--also", str(recording), "--choices", "none")
        assert f"| {tmp_path.name}/mosaic.pickle.xz |" in out
        assert "option" not in out

    def test_recordings_can_be_scaled_to_a_gpu(self, run: Callable[..., str]) -> None:
        out = run("--scale-to", "24GiB", "--choices", "none")
        assert "Driver time up to the peak, ms for each GiB held then" in out
        assert "| mosaic@24GiB |" in out

    def test_without_its_program_it_says_so(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert bench.main(["--program", "/nonexistent/program", "compare"]) == 1
        error = "bench compare: /nonexistent/program cannot be started: No such file or directory\n"
        assert capsys.readouterr().err == error
