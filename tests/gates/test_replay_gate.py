"""The regression gate: what replays of recorded training runs cost must not grow unnoticed.

The figures come from the simulated GPU, so they are the same on every machine. After a change that is meant to move
them, `pytest tests/gates --accept` writes them down anew; replay_baseline.json then shows in review what it costs.
"""

import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
HISTORIES = sorted(path for path in (HERE.parent.parent / "bench" / "histories").iterdir() if path.suffix != ".md")
BASELINE = HERE / "replay_baseline.json"
# The history itself, which no change of ours may move.
GIVEN = ("events", "completed", "peak_live_bytes")
# Less is better.
COSTS = ("peak_reserved_bytes", "driver_ns")
LEAST_UTILISATION = 0.98

each_history = pytest.mark.parametrize("history", [path.name for path in HISTORIES])


@pytest.fixture(scope="session")
def figures() -> dict[tuple[str, str], dict]:
    """The replay's figures by history and allocator."""
    command = [sys.executable, "-m", "frugal_alloc", "replay", "--allocator", "frugal,expandable", "--json", *HISTORIES]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {(entry["history"], entry["allocator"]): entry for entry in json.loads(done.stdout)}


@pytest.fixture(scope="session")
def baseline(figures, request: pytest.FixtureRequest) -> dict[str, dict]:
    """The accepted figures of our allocator by history."""
    if request.config.getoption("--accept", default=False):
        kept = {
            history: {name: entry[name] for name in (*GIVEN, *COSTS, "driver_calls")}
            for (history, allocator), entry in figures.items()
            if allocator == "frugal"
        }
        BASELINE.write_text(json.dumps(kept, indent=2) + "\n")
    return json.loads(BASELINE.read_text())


@each_history
def test_reserves_little_more_than_the_program_has_live(figures, history):
    assert figures[history, "frugal"]["completed"]
    assert figures[history, "frugal"]["utilisation"] >= LEAST_UTILISATION


@each_history
def test_wastes_no_more_than_expandable_segments(figures, history):
    assert figures[history, "frugal"]["utilisation"] >= figures[history, "expandable"]["utilisation"]


@each_history
def test_replays_the_same_history(figures, baseline, history):
    now = figures[history, "frugal"]
    assert {name: now[name] for name in GIVEN} == {name: baseline[history][name] for name in GIVEN}


@each_history
def test_costs_no_more_than_accepted(figures, baseline, history):
    accepted = {name: baseline[history][name] for name in COSTS} | baseline[history]["driver_calls"]
    entry = figures[history, "frugal"]
    now = {name: entry[name] for name in COSTS} | entry["driver_calls"]
    grown = {name: f"{accepted[name]} -> {now[name]}" for name in accepted if now[name] > accepted[name]}
    assert not grown, "grown against replay_baseline.json; if it is worth it: pytest tests/gates --accept"
