"""A server whose requests have caches that grow by concatenation: how much of the GPU it may give to tensors.

It was run on the simulated GPU: examples/stories/serving.py, docs/pictures/serving.json.
"""

from __future__ import annotations

from typing import Any

from . import ROOT, pages, simulated_run, stories

PROGRAM = ROOT / "examples" / "stories" / "serving.py"
GPU = "4GiB"
BUDGETS = ("0.88", "0.92", "0.96")
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


def told(data: dict[str, Any]) -> dict[str, str]:
    served = [name for name in RUNS if not data[name]["failed"]]
    largest = {one: max(name for name in served if name.startswith(one)) for one in stories.NAMES}
    return {
        "runs": pages.rows(*(_row(data[name], *name.split("_")) for name in largest.values())),
        **stories.refused(data["native_0.92"]),
        "available": stories.gib(data["frugal_0.88"]["available_bytes"]),
    }


def _row(run: dict[str, Any], allocator: str, budget: str) -> tuple[str, ...]:
    return stories.NAMES[allocator], budget, f"{run['most_tokens']:,}", f"{stories.gib(stories.most(run)[1])} GiB"
