"""A server whose requests have caches that grow by concatenation: how much of the GPU it may give to tensors.

What is drawn was run on the simulated GPU: examples/stories/serving.py, docs/pictures/serving.json.
"""

from __future__ import annotations

from typing import Any

from . import ROOT, pages, simulated_run, stories
from .line_chart import Level, LineChart

PROGRAM = ROOT / "examples" / "stories" / "serving.py"
GPU = "4GiB"
BUDGETS = ("0.88", "0.92", "0.96")
# The budget that is drawn.
_DRAWN = "0.88"
# By name: the program's arguments.
RUNS = {f"{one}_{budget}": ("--allocator", one, "--budget", budget) for budget in BUDGETS for one in stories.NAMES} | {
    "frugal_0.98": ("--allocator", "frugal", "--budget", "0.98")
}


def record() -> dict[str, Any]:
    """Of each run its steps, (most bytes in use, most held), what was served and the error."""
    found = simulated_run.several(PROGRAM, list(RUNS.values()), ("--memory", GPU))
    return {"gpu": GPU} | {name: _kept(run) for name, run in zip(RUNS, found, strict=True)}


def _kept(run: dict[str, Any]) -> dict[str, Any]:
    names = ("available_bytes", "failed", "completed", "evicted", "most_tokens", "steps")
    error = stories.error(run) if run["failed"] else None
    return {name: run[name] for name in names} | {"error": error}


def chart(data: dict[str, Any]) -> LineChart:
    runs = {one: data[f"{one}_{_DRAWN}"] for one in stories.NAMES}
    lines = {one: stories.held(one, run) for one, run in runs.items()}
    available = runs["frugal"]["available_bytes"]
    return LineChart(
        title=f"A server with {available / stories.GIB:.2f} GiB, tensors in {_DRAWN} of it",
        x_name="steps of generation",
        unit="GiB",
        lines=(*lines.values(), stories.in_use(runs["frugal"])),
        levels=(Level("available", available),),
        marks=tuple(stories.out_of_memory(lines[one]) for one, run in runs.items() if run["error"]),
    )


def told(data: dict[str, Any]) -> dict[str, str]:
    drawn = {one: stories.most(data[f"{one}_{_DRAWN}"]) for one in stories.NAMES}
    held = {one: stories.gib(held) for one, (_, held) in drawn.items()}
    served = [name for name in RUNS if not data[name]["failed"]]
    tokens = {one: max(data[run]["most_tokens"] for run in served if run.startswith(one)) for one in stories.NAMES}
    more = {one: f"{100 * (tokens['frugal'] / tokens[one] - 1):.0f} %" for one in ("native", "expandable")}
    return {
        "said": f"Tensors need {stories.gib(drawn['frugal'][0])} GiB at most. PyTorch's allocator holds "
        f"{held['native']} GiB, with expandable segments {held['expandable']} GiB, and frugal_alloc {held['frugal']} "
        "GiB.",
        "runs": pages.rows(*(_row(data[name], *name.split("_")) for name in RUNS)),
        **stories.refused(data["native_0.92"]),
        **{one: f"{count:,}" for one, count in tokens.items()},
        **{f"more_than_{one}": part for one, part in more.items()},
        "available": stories.gib(data["frugal_0.88"]["available_bytes"]),
    }


def _row(run: dict[str, Any], allocator: str, budget: str) -> tuple[object, ...]:
    end = f"out of memory after {run['completed']} requests" if run["failed"] else "serves on"
    counts = (f"{run['most_tokens']:,}", run["completed"], run["evicted"])
    return budget, stories.NAMES[allocator], *counts, f"{stories.gib(stories.most(run)[1])} GiB", end
