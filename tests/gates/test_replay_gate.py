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
from frugal_alloc._replay import replays

from bench import replay_suite
from bench.replay_suite import Play

BASELINE = pathlib.Path(__file__).resolve().with_name("replay_baseline.json")
PLAYS = replay_suite.load()
RECORDED = [play for play in PLAYS if play.input.kind == "recorded"]
# The history itself, which no change of ours may move.
GIVEN = ("events", "peak_live_bytes")
# Capacities over peak live: without work on the streams but what the history says, and with it.
AMPLE = 4
TIGHT, ROOMY = 1.02, 1.2
CAPACITY_TOLERANCE = 0.0005
LEAST_UTILISATION = 0.975
# Growth in large handles may cost so much more than in expandable segments'.
ROUNDING = 0.015

Figures = dict[str, Any]


def by_name(play: Play) -> str:
    return play.input.name


each_play = pytest.mark.parametrize("play", PLAYS, ids=by_name)
each_recorded = pytest.mark.parametrize("play", RECORDED, ids=by_name)


@pytest.fixture(scope="session")
def replayer() -> replays.Replayer:
    return replays.Replayer()


@pytest.fixture(scope="session")
def figures(replayer: replays.Replayer) -> dict[str, Figures]:
    """What our allocator costs, by history: as in the baseline, but for the capacity."""
    found = replays.run_all(replayer, [functools.partial(_measure, replayer, play) for play in PLAYS])
    return {play.input.name: one for play, one in zip(PLAYS, found, strict=True)}


@pytest.fixture(scope="session")
def expandable(replayer: replays.Replayer) -> dict[str, float]:
    """The utilisation of expandable segments, by history."""
    jobs = [functools.partial(_play_ample, replayer, play, "expandable", passes=1) for play in RECORDED]
    return {one.history: one.utilisation or 0.0 for one in replays.run_all(replayer, jobs)}


@pytest.fixture(scope="session")
def baseline(figures: dict[str, Figures], replayer: replays.Replayer, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The accepted figures of our allocator, by history."""
    if request.config.getoption("--accept"):
        smallest = replays.run_all(replayer, [functools.partial(_smallest, replayer, play, figures) for play in PLAYS])
        kept = {
            play.input.name: {**figures[play.input.name], "completes_in_bytes": size}
            for play, size in zip(PLAYS, smallest, strict=True)
        }
        BASELINE.write_text(json.dumps(kept, indent=2) + "\n")
    return json.loads(BASELINE.read_text())


def _play_ample(replayer: replays.Replayer, play: Play, allocator: str, passes: int) -> replays.Measurement:
    capacity = replay_suite.capacity(play.history, AMPLE)
    return replayer.measure(play.history, allocator, capacity, find_minimum=False, passes=passes)


def _measure(replayer: replays.Replayer, play: Play) -> Figures:
    ample = _play_ample(replayer, play, "frugal", passes=2)
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
        found = replay_suite.measure_constrained(replayer, play, "frugal", ratio)
        costs |= {
            f"fails_at_{ratio:g}": int(not found.completed),
            f"host_syncs_at_{ratio:g}": found.host_syncs,
            f"stream_waits_at_{ratio:g}": found.stream_waits,
        }
    roomy = replayer.measure(
        play.history, "frugal", replay_suite.capacity(play.history, ROOMY), find_minimum=False, passes=1
    )
    costs["peak_reserved_bytes_at_1.2"] = roomy.peak_reserved_bytes
    return {"events": ample.events, "peak_live_bytes": ample.peak_live_bytes, "costs": costs}


def _smallest(replayer: replays.Replayer, play: Play, figures: dict[str, Figures]) -> int:
    return replays.smallest_capacity(
        play.history.peak_live_bytes,
        figures[play.input.name]["costs"]["peak_reserved_bytes_at_1.2"],
        replays.DEFAULT_CAPACITY,
        lambda size: replayer.completes(play.history, "frugal", size),
        CAPACITY_TOLERANCE,
    )


def _utilisation(figures: Figures, reserved: str) -> float:
    return figures["peak_live_bytes"] / figures["costs"][reserved]


@each_recorded
def test_reserves_little_more_than_the_program_has_live_where_memory_is_short(figures, play):
    assert _utilisation(figures[play.input.name], "peak_reserved_bytes_at_1.2") >= LEAST_UTILISATION


@each_recorded
def test_wastes_no_more_than_expandable_segments(figures, expandable, play):
    used = _utilisation(figures[play.input.name], "peak_reserved_bytes")
    assert used >= expandable[play.input.name] - ROUNDING


@each_play
def test_replays_the_same_history(figures, baseline, play):
    now, accepted = figures[play.input.name], baseline[play.input.name]
    assert {name: now[name] for name in GIVEN} == {name: accepted[name] for name in GIVEN}


@each_play
def test_costs_no_more_than_accepted(figures, baseline, play):
    now, accepted = figures[play.input.name]["costs"], baseline[play.input.name]["costs"]
    grown = {name: f"{accepted[name]} -> {now[name]}" for name in accepted if now[name] > accepted[name]}
    assert not grown, "grown against replay_baseline.json; if it is worth it: pytest tests/gates --accept"


@each_play
def test_completes_in_the_accepted_capacity(replayer, baseline, play):
    assert replayer.completes(play.history, "frugal", baseline[play.input.name]["completes_in_bytes"])
