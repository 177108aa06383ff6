"""A server and a trainer that sleep by turns learn and say what they do where nothing sleeps, bit by bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def play(run_story: Any, tmp_path: Path) -> Any:
    """Runs the program with small models and with values; returns what it wrote."""

    def run(way: str, processes: int = 1) -> dict[str, Any]:
        file = tmp_path / "turns.json"
        options = ("--way", way, "--processes", str(processes), "--sizes", "small", "--json", str(file))
        done = run_story("turns.py", 2048, *options, FRUGAL_SIM_NODE=str(tmp_path / "node"))
        assert done.returncode == 0, done.stderr
        return json.loads(file.read_text())

    return run


def slept(run: dict[str, Any]) -> dict[str, int]:
    """What all its sleeps copied, gave back and so on."""
    events = [event for event in run["events"] if event["action"] == "sleep"]
    return {key: sum(event[key] for event in events) for key in ("copied", "given_back", "live", "dropped")}


def test_losses_and_tokens_are_those_of_a_loop_in_which_nothing_sleeps(play: Any) -> None:
    awake = play("keep")
    assert len(set(awake["losses"])) == len(awake["losses"]) == 3
    for processes in (1, 2):
        asleep = play("frugal", processes)
        assert asleep["losses"] == awake["losses"] and asleep["tokens"] == awake["tokens"]
        figures = slept(asleep)
        assert 0 < figures["copied"] <= 1.001 * figures["live"]
        assert figures["given_back"] >= 0.98 * (figures["live"] + figures["dropped"])


@pytest.mark.parametrize("way", ["saver", "vllm"])
def test_whole_segments_copy_more_for_the_same_losses_and_tokens(play: Any, way: str) -> None:
    awake, asleep = play("keep"), play(way)
    assert asleep["losses"] == awake["losses"] and asleep["tokens"] == awake["tokens"]
    figures = slept(asleep)
    assert figures["copied"] > 1.1 * figures["live"]
