"""The regression gate: what replays of recorded and generated programs cost must not grow unnoticed.

The figures come from the simulated GPU, so they are the same on every machine. After a change that is meant to move
them, `pytest tests/gates --accept` writes them down anew; replay_baseline.json then shows in review what it costs.
"""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any

import pytest
from frugal_alloc._planning.replay import replays

from bench import suite
from bench.suite import AMPLE, Workload

BASELINE = pathlib.Path(__file__).resolve().with_name("replay_baseline.json")
WORKLOADS = suite.load()
RECORDED = [workload for workload in WORKLOADS if workload.is_recorded]
# The history itself, which no change of ours may move.
GIVEN = ("events", "peak_live_bytes")
# Capacities over peak live in which the streams have work, too.
TIGHT, ROOMY = 1.02, 1.2
CAPACITY_TOLERANCE = 0.0005
LEAST_UTILISATION = 0.975
# Growth in large handles may cost so much more than in expandable segments'.
ROUNDING = 0.015

Figures = dict[str, Any]


def by_name(workload: Workload) -> str:
    return workload.name


each_history = pytest.mark.parametrize("workload", WORKLOADS, ids=by_name)
each_recorded = pytest.mark.parametrize("workload", RECORDED, ids=by_name)


@pytest.fixture(scope="session")
def replayer() -> replays.Replayer:
    return replays.Replayer()


@pytest.fixture(scope="session")
def figures(replayer: replays.Replayer) -> dict[str, Figures]:
    """What our allocator costs, by history: as in the baseline, but for the capacity."""
    found = replays.run_all(replayer, [functools.partial(_measure, replayer, workload) for workload in WORKLOADS])
    return {workload.name: one for workload, one in zip(WORKLOADS, found, strict=True)}


@pytest.fixture(scope="session")
def expandable(replayer: replays.Replayer) -> dict[str, float]:
    """The utilisation of expandable segments, by history."""
    jobs = [functools.partial(_play_ample, replayer, workload, "expandable", passes=1) for workload in RECORDED]
    return {one.history: one.utilisation or 0.0 for one in replays.run_all(replayer, jobs)}


@pytest.fixture(scope="session")
def baseline(figures: dict[str, Figures], replayer: replays.Replayer, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The accepted figures of our allocator, by history."""
    if request.config.getoption("--accept"):
        jobs = [functools.partial(_smallest, replayer, workload, figures) for workload in WORKLOADS]
        kept = {
            workload.name: {**figures[workload.name], "completes_in_bytes": size}
            for workload, size in zip(WORKLOADS, replays.run_all(replayer, jobs), strict=True)
        }
        BASELINE.write_text(json.dumps(kept, indent=2) + "\n")
    return json.loads(BASELINE.read_text())


def _play_ample(replayer: replays.Replayer, workload: Workload, allocator: str, passes: int) -> replays.Measurement:
    capacity = workload.capacity(AMPLE)
    return replayer.measure(workload.history, allocator, capacity, find_minimum=False, passes=passes)


def _play_behind(replayer: replays.Replayer, workload: Workload, ratio: float) -> replays.Measurement:
    lag = workload.stream_lag(ratio)
    capacity = workload.capacity(ratio)
    return replayer.measure(workload.history, "frugal", capacity, find_minimum=False, passes=1, stream_lag=lag)


def _measure(replayer: replays.Replayer, workload: Workload) -> Figures:
    ample = _play_ample(replayer, workload, "frugal", passes=2)
    assert ample.steady is not None, ample.error
    costs = {
        "peak_reserved_bytes": ample.peak_reserved_bytes,
        "driver_ns": ample.driver_ns,
        "driver_ns_to_peak": ample.driver_ns_to_peak,
        "steady_driver_ns": ample.steady.driver_ns,
        "host_syncs": ample.host_syncs,
        **ample.driver_calls,
        **{f"steady_{kind}": count for kind, count in ample.steady.driver_calls.items()},
    }
    for ratio in (TIGHT, ROOMY):
        found = _play_behind(replayer, workload, ratio)
        costs |= {
            f"fails_at_{ratio:g}": int(not found.completed),
            f"host_syncs_at_{ratio:g}": found.host_syncs,
            f"stream_waits_at_{ratio:g}": found.driver_calls["stream_wait"],
        }
    roomy = replayer.measure(workload.history, "frugal", workload.capacity(ROOMY), find_minimum=False, passes=1)
    costs["peak_reserved_bytes_at_1.2"] = roomy.peak_reserved_bytes
    return {"events": ample.events, "peak_live_bytes": ample.peak_live_bytes, "costs": costs}


def _smallest(replayer: replays.Replayer, workload: Workload, figures: dict[str, Figures]) -> int:
    return replays.smallest_capacity(
        workload.live_bytes,
        figures[workload.name]["costs"]["peak_reserved_bytes_at_1.2"],
        replays.DEFAULT_CAPACITY,
        lambda size: replayer.completes(workload.history, "frugal", size),
        CAPACITY_TOLERANCE,
    )


def _utilisation(figures: Figures, reserved: str) -> float:
    return figures["peak_live_bytes"] / figures["costs"][reserved]


@each_recorded
def test_reserves_little_more_than_the_program_has_live_where_memory_is_short(figures, workload):
    assert _utilisation(figures[workload.name], "peak_reserved_bytes_at_1.2") >= LEAST_UTILISATION


@each_recorded
def test_wastes_no_more_than_expandable_segments(figures, expandable, workload):
    used = _utilisation(figures[workload.name], "peak_reserved_bytes")
    assert used >= expandable[workload.name] - ROUNDING


@each_history
def test_replays_the_same_history(figures, baseline, workload):
    now, accepted = figures[workload.name], baseline[workload.name]
    assert {name: now[name] for name in GIVEN} == {name: accepted[name] for name in GIVEN}


@each_history
def test_costs_no_more_than_accepted(figures, baseline, workload):
    now, accepted = figures[workload.name]["costs"], baseline[workload.name]["costs"]
    grown = {name: f"{accepted[name]} -> {now[name]}" for name in accepted if now[name] > accepted[name]}
    assert not grown, "grown against replay_baseline.json; if it is worth it: pytest tests/gates --accept"


@each_history
def test_completes_in_the_accepted_capacity(replayer, baseline, workload):
    assert replayer.completes(workload.history, "frugal", baseline[workload.name]["completes_in_bytes"])
