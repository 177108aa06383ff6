"""A server whose requests have caches that grow by concatenation: how much of the GPU it may give to tensors.

What is drawn was run on the simulated GPU: examples/stories/serving.py, docs/pictures/serving.json.
"""

from __future__ import annotations

from typing import Any

from . import ROOT, recorded, simulated_run, stories
from .line_chart import Level, LineChart, line_chart

FILE = recorded.FOLDER / "serving.svg"
DATA = recorded.FOLDER / "serving.json"
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


def picture() -> str:
    data = recorded.read(DATA)
    runs = {one: data[f"{one}_{_DRAWN}"] for one in stories.NAMES}
    lines = {one: stories.held(one, run) for one, run in runs.items()}
    available = runs["frugal"]["available_bytes"]
    return line_chart(
        LineChart(
            title=f"A server with {available / stories.GIB:.2f} GiB, tensors in {_DRAWN} of it",
            said=_said(data),
            x_name="steps of generation",
            unit="GiB",
            lines=(*lines.values(), stories.in_use(runs["frugal"])),
            levels=(Level("available", available),),
            marks=tuple(stories.out_of_memory(lines[one]) for one, run in runs.items() if run["error"]),
        )
    )


def _said(data: dict[str, Any]) -> str:
    runs = {one: data[f"{one}_{_DRAWN}"] for one in stories.NAMES}
    held = {one: max(held for _, held in run["steps"]) / stories.GIB for one, run in runs.items()}
    need = max(used for used, _ in runs["frugal"]["steps"]) / stories.GIB
    return (
        f"Tensors need {need:.2f} GiB at most. PyTorch's allocator holds {held['native']:.2f} GiB, with expandable "
        f"segments {held['expandable']:.2f} GiB; frugal_alloc holds {held['frugal']:.2f} GiB. Runs on a simulated GPU."
    )
