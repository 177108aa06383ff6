"""What PyTorch's allocator holds of a GPU while hardly any of it is in tensors: the sizes of pytorch/pytorch#193400.

What is drawn was run on the simulated GPU: examples/stories/fragmentation.py, docs/pictures/reserved_growth.json.
"""

from __future__ import annotations

from typing import Any

from . import ROOT, recorded, simulated_run
from .line_chart import Kind, Level, Line, LineChart, Mark, line_chart

FILE = recorded.FOLDER / "reserved_growth.svg"
DATA = recorded.FOLDER / "reserved_growth.json"
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
_GIB = 1 << 30


def record() -> dict[str, Any]:
    """Runs the program with each allocator. Of each request (bytes in tensors, bytes held, retries)."""
    return {"gpu": _GPU} | {name: _run(*chosen) for name, chosen in RUNS.items()}


def _run(allocator: str, settings: str) -> list[list[int]]:
    written = simulated_run.written(
        PROGRAM, "--allocator", allocator, memory=_GPU, settings={"PYTORCH_ALLOC_CONF": settings}
    )
    return written["requests"]


def picture() -> str:
    data = recorded.read(DATA)
    retried = first_retry(data["both_options"])
    return line_chart(
        LineChart(
            title="Memory held on a GPU of 16 GiB, of which each request keeps 2 MiB",
            said=_said(data),
            x_name="requests",
            unit="GiB",
            lines=(
                _held(data, "both_options", "native", "PyTorch, both options"),
                _held(data, "frugal", "ours", "frugal_alloc; PyTorch with one option or none"),
                Line("tensors", "live", [(at, one[0]) for at, one in enumerate(data["frugal"])]),
            ),
            levels=(Level("the GPU's memory", float(_GPU.removesuffix("GiB")) * _GIB),),
            marks=(Mark("full", retried - 1, data["both_options"][retried - 1][1], "native", "dot"),),
        )
    )


def first_retry(requests: list[list[int]]) -> int:
    """The first request for which the allocator had to give free memory back."""
    return next(number for number, (_, _, retries) in enumerate(requests) if retries)


def _held(data: dict[str, Any], run: str, kind: Kind, name: str) -> Line:
    return Line(name, kind, [(number, held) for number, (_, held, _) in enumerate(data[run])])


def _said(data: dict[str, Any]) -> str:
    in_tensors, held, _ = data["both_options"][100]
    ours = data["frugal"][100][1]
    return (
        f"With both of PyTorch's options, {held >> 20:,} MiB are held after 100 requests, of which {in_tensors >> 20} "
        f"MiB are in tensors. At request {first_retry(data['both_options'])} the GPU is full and free memory is given "
        f"back. With frugal_alloc {ours >> 20} MiB are held after 100 requests, and about as much with one option "
        "or none. Runs on a simulated GPU."
    )
