"""A server and a trainer that share a GPU by turns: what sleeping saves and costs, in three ways.

It was run on the simulated GPU: examples/stories/turns.py, docs/pictures/turns.json.
"""

from __future__ import annotations

import os
from typing import Any

from . import ROOT, pages, simulated_run, stories

PROGRAM = ROOT / "examples" / "stories" / "turns.py"
GPU, ROOMY = "24GiB", "48GiB"
NAMES = {
    "keep": "nothing",
    "saver": "segments, as torch_memory_saver has it",
    "vllm": "segments, as vLLM has it",
    "frugal": "frugal_alloc",
}
# Bytes that the simulated GPU's model copies in a nanosecond between host and GPU: docs/simulated_gpu_inside.md.
COPIED_IN_NS = 25


def record() -> dict[str, Any]:
    """Of each run what failed, the most memory in use, and the sleeps and wakes of the last turn."""
    runs = {f"{way}_{processes}": (way, processes) for way in NAMES for processes in ("1", "2")}
    return {"gpu": GPU, "roomy": ROOMY, **_ran(GPU, runs), **_ran(ROOMY, {"keep_roomy": ("keep", "1")})}


def _ran(gpu: str, runs: dict[str, tuple[str, str]]) -> dict[str, Any]:
    arguments = [("--turns", "2", "--way", way, "--processes", processes) for way, processes in runs.values()]
    found = simulated_run.several(PROGRAM, arguments, ("--memory", gpu, "--node", f"turns-{os.getpid()}"))
    return {name: _kept(run) for name, run in zip(runs, found, strict=True)}


def _kept(run: dict[str, Any]) -> dict[str, Any]:
    events = run["events"]
    last = max((at for at, event in enumerate(events) if event["action"] == "generate"), default=len(events))
    return {
        "failed": run["failed"],
        "most": max(event["most"] for event in events),
        "turn": [event for event in events[last:] if event["action"] in ("sleep", "wake")],
    }


def told(data: dict[str, Any]) -> dict[str, str]:
    return {
        "live": stories.gib(_of(data["frugal_1"], "sleep", "live")),
        "dropped": stories.gib(_of(data["frugal_1"], "sleep", "dropped")),
        "needs": stories.gib(data["keep_roomy"]["most"]),
        "runs": pages.rows(*(_row(data, way) for way in NAMES if way != "keep")),
    }


def _row(data: dict[str, Any], way: str) -> tuple[str, ...]:
    run = data[f"{way}_1"]
    most = [_most(data[f"{way}_{count}"]) for count in (1, 2)]
    copied = _of(run, "sleep", "copied")
    calls = " / ".join(f"{_of(run, action, 'calls'):,}" for action in ("sleep", "wake"))
    times = " / ".join(f"{_seconds(run, action):.2f} s" for action in ("sleep", "wake"))
    host = max(event["host"] for event in run["turn"] if event["action"] == "sleep")
    return NAMES[way], *most, f"{stories.gib(copied)} GiB", calls, times, f"{stories.gib(host)} GiB"


def _most(run: dict[str, Any]) -> str:
    return "out of memory" if run["failed"] else f"{stories.gib(run['most'])} GiB"


def _seconds(run: dict[str, Any], action: str) -> float:
    return (_of(run, action, "driver_ns") + _of(run, action, "copied") / COPIED_IN_NS) / 1e9


def _of(run: dict[str, Any], action: str, figure: str) -> int:
    """The sum of a turn's sleeps or wakes."""
    return sum(event[figure] for event in run["turn"] if event["action"] == action)
