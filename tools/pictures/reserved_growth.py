"""What PyTorch's allocator holds of a GPU while hardly any of it is in tensors: the sizes of pytorch/pytorch#193400.

What is drawn was run on the simulated GPU: examples/stories/fragmentation.py, docs/pictures/reserved_growth.json.
"""

from __future__ import annotations

from typing import Any

from . import ROOT, simulated_run, stories
from .line_chart import Kind, Level, Line, LineChart, Mark

PROGRAM = ROOT / "examples" / "stories" / "fragmentation.py"
BOTH = "max_split_size_mb:128,expandable_segments:True"
_GPU = "16GiB"
# Of each run: the program's allocator, and PYTORCH_ALLOC_CONF.
RUNS = {
    "both_options": ("native", BOTH),
    "native": ("native", ""),
    "max_split": ("native", "max_split_size_mb:128"),
    "expandable": ("native", "expandable_segments:True"),
    "frugal": ("frugal", ""),
    "frugal_both_options": ("frugal", BOTH),
}


def record() -> dict[str, Any]:
    """Runs the program with each allocator. Of each request (bytes in tensors, bytes held, retries)."""
    runs = [(f"PYTORCH_ALLOC_CONF={settings}", "--allocator", allocator) for allocator, settings in RUNS.values()]
    found = simulated_run.completed(PROGRAM, runs, ("--memory", _GPU))
    return {"gpu": _GPU} | {name: run["requests"] for name, run in zip(RUNS, found, strict=True)}


def chart(data: dict[str, Any]) -> LineChart:
    retried = first_retry(data["both_options"])
    return LineChart(
        title="Memory held on a GPU of 16 GiB, of which each request keeps 2 MiB",
        x_name="requests",
        unit="GiB",
        lines=(
            _held(data, "both_options", "native", "PyTorch, both options"),
            _held(data, "frugal", "ours", "frugal_alloc; PyTorch with one option or none"),
            Line("tensors", "live", [(at, one[0]) for at, one in enumerate(data["frugal"])]),
        ),
        levels=(Level("the GPU's memory", float(_GPU.removesuffix("GiB")) * stories.GIB),),
        marks=(Mark("full", retried - 1, data["both_options"][retried - 1][1], "native", "dot"),),
    )


def first_retry(requests: list[list[int]]) -> int:
    """The first request for which the allocator had to give free memory back."""
    return next(number for number, (_, _, retries) in enumerate(requests) if retries)


def _held(data: dict[str, Any], run: str, kind: Kind, name: str) -> Line:
    return Line(name, kind, [(number, held) for number, (_, held, _) in enumerate(data[run])])


def told(data: dict[str, Any]) -> dict[str, str]:
    both, retry = data["both_options"], first_retry(data["both_options"])
    held = {run: stories.mib(requests[100][1]) for run, requests in data.items() if run in RUNS}
    others = sorted(held[run] for run in ("native", "max_split", "expandable"))
    return {
        "said": f"With both of PyTorch's settings, what is held grows to {stories.mib(both[retry - 1][1])} MiB by "
        f"request {retry - 1}. Then the GPU is full, and free memory is given back. With one of the settings or none, "
        f"{others[-1]} MiB are held after 100 requests, with frugal_alloc {held['frugal']} MiB.",
        "in_tensors": stories.mib(both[100][0]),
        "full": str(retry),
        "after": stories.mib(both[retry][1]),
        "both": held["both_options"],
        "least": others[0],
        "most": others[-1],
        "ours": held["frugal"],
    }
