"""//bench:replay_bench: what it measures, how it judges, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._replay import replays, worker

from bench import replay_bars, replay_bench, replay_results, replay_suite
from bench.generators.recorder import GIB, MIB, Recorder
from bench.replay_results import Bar, Constrained, Input, Value

CALLS = dict.fromkeys(worker.CALL_KINDS, 0)
RECORDED = Input("gpt60", "recorded", "", 100, 50, 1, 10 * GIB, None, [], None, 32)
LOOP = Input("fixed_random", "generated", "", 100, 50, 1, 10 * GIB, None, [25, 50, 75, 100], 1, 32)
STREAMS = Input("many_pools", "generated", "", 100, 50, 6, 10 * GIB, 25, [], 1, 32)


def measurement(history: str, allocator: str = "frugal", **changes: Any) -> replays.Measurement:
    """Of a run that kept 10 GiB live, reserved no more and called the driver never."""
    fields = {field.name: None for field in dataclasses.fields(replays.Measurement)}
    fields |= {
        "history": history,
        "allocator": allocator,
        "completed": True,
        "peak_live_bytes": 10 * GIB,
        "peak_reserved_bytes": 10 * GIB,
        "driver_calls": CALLS,
        "driver_ns": 0,
        "driver_ns_to_peak": 0,
        "stream_lag": 0,
        "steady": replays.SteadyState(50, 2_000, CALLS, 0, 0),
    }
    return replays.Measurement(**(fields | changes))


def constrained(history: str, ratio: float, **changes: Any) -> Constrained:
    """Completed, without any wait."""
    fields = {field.name: 0 for field in dataclasses.fields(Constrained)}
    fields |= {"history": history, "allocator": "frugal", "ratio": ratio, "completed": True, "driver_calls": CALLS}
    return Constrained(**(fields | changes))


def judge(inputs: list[Input], measurements: Any = (), constrained: Any = (), behind: Any = ()) -> dict[str, Bar]:
    findings = replay_suite.Findings(list(measurements), list(behind), list(constrained))
    return {bar.key: bar for bar in replay_bars.bars(inputs, findings)}


def only_value(bar: Bar) -> Value:
    (value,) = bar.values
    return value


class TestBars:
    @pytest.mark.parametrize(
        ("reserved", "bar", "stretch"),
        [
            (round(10 * GIB / 0.994), False, False),
            (round(10 * GIB / 0.996), True, False),
            (round(10 * GIB / 0.9995), True, True),
        ],
    )
    def test_utilisation_is_judged_by_its_bars(self, reserved: int, bar: bool, stretch: bool) -> None:
        found = judge([RECORDED], [measurement("gpt60", peak_reserved_bytes=reserved)])["utilisation_recorded"]
        value = only_value(found)
        assert value.value == pytest.approx(10 * GIB / reserved, abs=1e-5)
        assert (value.meets_bar, value.meets_stretch) == (bar, stretch)

    @pytest.mark.parametrize(("handles", "meets"), [(4, True), (5, False)])
    def test_four_handles_are_granted_to_small_histories(self, handles: int, meets: bool) -> None:
        small = measurement(
            "gpt60", peak_live_bytes=64 * MIB, peak_reserved_bytes=64 * MIB + handles * replay_suite.HANDLE_BYTES
        )
        value = only_value(judge([RECORDED], [small])["utilisation_recorded"])
        assert (value.meets_bar, value.meets_stretch) == (meets, meets)

    def test_run_that_failed_meets_nothing(self) -> None:
        failed = measurement("gpt60", completed=False, steady=None)
        bars = judge([RECORDED], [failed], [constrained("gpt60", 1.02, completed=False)])
        for key in ("utilisation_recorded", "time_training", "event_calls", "syncs_1.02"):
            value = only_value(bars[key])
            assert (value.value, value.meets_bar, value.meets_stretch) == (None, False, False), key

    def test_loop_may_make_no_driver_call(self) -> None:
        one = replays.SteadyState(50, 2_000, CALLS | {"map": 1}, 2_000, 0)
        bars = judge([LOOP], [measurement("fixed_random", steady=one)])
        assert only_value(bars["loop_calls"]) == Value("fixed_random", "frugal", 0.5, False, False)
        still = judge([LOOP], [measurement("fixed_random")])["loop_calls"]
        assert only_value(still).meets_stretch

    def test_event_calls_do_not_count_where_streams_are_several(self) -> None:
        bars = judge([LOOP, STREAMS], [measurement("fixed_random"), measurement("many_pools")])
        assert [value.history for value in bars["event_calls"].values] == ["fixed_random"]

    def test_driver_time_is_in_ms_for_a_thousand_allocations(self) -> None:
        steady = replays.SteadyState(50, 2_000, CALLS, 3_000_000, 0)
        value = only_value(judge([RECORDED], [measurement("gpt60", steady=steady)])["time_training"])
        assert (value.value, value.meets_bar, value.meets_stretch) == (1.5, False, False)

    def test_first_time_is_compared_with_native_of_the_same_history(self) -> None:
        ours = measurement("gpt60", driver_ns_to_peak=60_000_000)
        native = measurement("gpt60", "native", driver_ns_to_peak=50_000_000)
        values = judge([RECORDED], [ours, native])["first_time"].values
        assert [(value.value, value.meets_bar, value.meets_stretch) for value in values] == [
            (6.0, True, False),
            (5.0, True, True),
        ]

    def test_host_waits_and_stream_waits_are_counted_at_their_capacities(self) -> None:
        plays = [
            constrained("many_pools", 1.005, host_syncs=2, stream_waits=3),
            constrained("many_pools", 1.2, host_syncs=0, stream_waits=3),
        ]
        bars = judge([STREAMS], constrained=plays)
        assert only_value(bars["syncs_1.005"]) == Value("many_pools", "frugal", 2, False, False)
        assert only_value(bars["syncs_1.2"]).meets_stretch
        assert only_value(bars["waits_1.2"]) == Value("many_pools", "frugal", 3, False, False)
        assert "waits_1.005" not in bars

    def test_smallest_capacity_is_a_part_of_what_was_live(self) -> None:
        found = measurement("gpt60", min_capacity_bytes=round(10 * GIB * 1.003))
        value = only_value(judge([RECORDED], [found])["min_capacity"])
        assert (value.value, value.meets_bar, value.meets_stretch) == (1.003, True, False)
        assert "min_capacity" not in judge([RECORDED], [measurement("gpt60")])


class TestCapacity:
    @pytest.mark.parametrize(("live", "ratio", "expected"), [(1000, 1.2, 1200), (1000, 1.001, 1004), (100, 1.02, 104)])
    def test_capacity_is_a_ratio_or_four_handles_more(self, live: int, ratio: float, expected: int) -> None:
        recorder = Recorder()
        recorder.allocate(live * replay_suite.HANDLE_BYTES)
        assert replay_suite.capacity(recorder.history("x"), ratio) == expected * replay_suite.HANDLE_BYTES


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("results") / "results.json"
    arguments = ["--only", "gpt_inference,mosaic", "--allocators", "frugal,native", "--capacity", "1.2x"]
    assert replay_bench.main([*arguments, "--json", str(path)]) == 0
    return replay_results.read(path)


class TestCommandLine:
    def test_file_has_everything_that_was_asked_for(self, results: dict[str, Any]) -> None:
        assert set(results) == {field.name for field in dataclasses.fields(replay_results.Results)}
        assert [one["name"] for one in results["inputs"]] == ["gpt_inference", "mosaic"]
        pairs = [(history, allocator) for history in ("gpt_inference", "mosaic") for allocator in ("frugal", "native")]
        assert [(one["history"], one["allocator"]) for one in results["measurements"]] == pairs
        assert [(one["history"], one["allocator"]) for one in results["constrained"]] == pairs
        # The other one has a single stream.
        assert [(one["history"], one["allocator"]) for one in results["behind"]] == pairs[2:]
        for one in results["measurements"]:
            assert one["min_capacity_bytes"] >= one["peak_live_bytes"]
            assert max(held for _, _, held in one["series"]) == one["peak_reserved_bytes"]
            assert sum(size for _, size, state in one["runs"] if state == "live") >= one["peak_live_bytes"]
        assert results["environment"]["arguments"][:2] == ["--only", "gpt_inference,mosaic"]

    def test_quick_run_measures_ours_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert replay_bench.main(["--only", "mosaic", "--quick"]) == 0
        out = capsys.readouterr().out
        assert "native: worst" not in out
        lines = {line.split("  ")[0]: line for line in out.splitlines()}
        assert "0.99" in lines["utilisation, recorded"]
        assert "host waits at 1.005 x peak live" in lines
        assert "smallest capacity, of peak live [x]" not in lines

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["--only", "gpt6"], "no history is named 'gpt6'; there are bert60, "),
            (["--allocators", "frugal,nativ"], "'nativ' is none of frugal, native, expandable"),
            (["--capacity", "0.9x"], "'0.9x' is no ratio"),
            (["--capacity", "much"], "'much' is no ratio"),
            (["--json", "/nonexistent/results.json"], "there is no folder /nonexistent"),
            (["gpt60"], "unrecognized arguments: gpt60"),
        ],
    )
    def test_bad_arguments_get_one_line_and_status_2(
        self, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            sys.exit(replay_bench.main(arguments))
        captured = capsys.readouterr()
        assert (ended.value.code, captured.out) == (2, "")
        assert captured.err.startswith("replay_bench: ")
        assert reason in captured.err
        assert captured.err.count("\n") == 1

    def test_worker_that_crashes_gets_one_line_and_status_1(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(replays.sys, "executable", "/bin/false")
        assert replay_bench.main(["--only", "mosaic"]) == 1
        assert capsys.readouterr().err.startswith("replay_bench: mosaic with ")


class TestResultsFile:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "is not JSON"),
            ("[]", "was not written by"),
            ("{}", "was not written by"),
            (json.dumps({"format": 0}), "has format 0, and this program reads 1"),
        ],
    )
    def test_other_files_are_refused(self, text: str, reason: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_text(text)
        with pytest.raises(ValueError, match=reason):
            replay_results.read(tmp_path / "file")
