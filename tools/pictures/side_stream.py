"""What a stream that is used once keeps from all others: the pattern of NVIDIA/Megatron-LM#6885.

What is drawn was run on the simulated GPU: examples/stories/side_stream.py, docs/pictures/side_stream.json.
"""

from __future__ import annotations

from typing import Any

from . import ROOT, pages, simulated_run, stories
from .line_chart import Kind, Line, LineChart

PROGRAM = ROOT / "examples" / "stories" / "side_stream.py"
FRESH_STREAMS = ROOT / "examples" / "stories" / "fresh_streams.py"
ALLOCATORS = ("native", "expandable", "frugal")
# Roomy: of an H200. Tight: of an H100.
ROOMY, TIGHT = "141GiB", "80GiB"
_RUNS = ("side_stream", "current_stream", "side_stream_tight")
_NAMED = {
    "native": "PyTorch",
    "expandable": "PyTorch, expandable segments",
    "same_streams": "PyTorch, the same two streams",
    "frugal": "frugal_alloc",
}


def record() -> dict[str, Any]:
    """Runs the programs with each allocator: with the side stream, without, and with it on a GPU that gets full."""
    found: dict[str, Any] = {"roomy_gpu": ROOMY, "tight_gpu": TIGHT}
    chosen = [("--allocator", allocator) for allocator in ALLOCATORS]
    current = [(*one, "--current-stream") for one in chosen]
    emptied = ("--allocator", "expandable", "--empty-cache")
    roomy = simulated_run.completed(PROGRAM, [*chosen, *current, emptied], ("--memory", ROOMY))
    tight = simulated_run.completed(PROGRAM, chosen, ("--memory", TIGHT))
    for place, allocator in enumerate(ALLOCATORS):
        found[allocator] = {
            # After each layer (bytes in tensors, bytes held).
            "layers": roomy[place]["layers"],
            "side_stream": roomy[place]["most"],
            "current_stream": roomy[len(chosen) + place]["most"],
            "side_stream_tight": tight[place]["most"],
        }
    found["expandable"]["emptied"] = roomy[-1]["most"]
    # Bytes held after each transfer.
    fresh = simulated_run.completed(FRESH_STREAMS, [("--same-streams",), *chosen], ("--memory", TIGHT))
    found["transfers"] = {run: one["held"] for run, one in zip(("same_streams", *ALLOCATORS), fresh, strict=True)}
    return found


def chart(data: dict[str, Any]) -> LineChart:
    live = [(at, allocated) for at, (allocated, _) in enumerate(data["frugal"]["layers"])]
    return LineChart(
        title="Memory held: a model is set up on a side stream, then trained",
        x_name="layers forward and backward, two steps",
        unit="GiB",
        lines=(
            _held(data, "native", "native", "PyTorch"),
            _held(data, "expandable", "expandable", "expandable segments"),
            _held(data, "frugal", "ours", "frugal_alloc"),
            Line("tensors", "live", live),
        ),
    )


def _held(data: dict[str, Any], allocator: str, kind: Kind, name: str) -> Line:
    layers = data[allocator]["layers"]
    return Line(name, kind, [(at, held) for at, (_, held) in enumerate(layers)])


def told(data: dict[str, Any]) -> dict[str, str]:
    most = {run: {one: data[one][run]["reserved"] for one in ALLOCATORS} for run in _RUNS}
    above = {one: stories.gib(most["side_stream"][one] - data[one]["side_stream"]["allocated"]) for one in ALLOCATORS}
    cost = {one: most["side_stream"][one] - most["current_stream"][one] for one in ALLOCATORS}
    transfers = ((_NAMED[run], *_after(data["transfers"][run])) for run in _NAMED)
    return {
        "said": f"PyTorch's allocator holds up to {above['native']} GiB more than tensors need, and "
        f"{above['expandable']} GiB more with expandable segments. frugal_alloc holds up to {above['frugal']} GiB "
        "more.",
        "runs": pages.rows(*((_NAMED[one], *_amounts(data[one], cost[one])) for one in ALLOCATORS)),
        "transfers": pages.rows(*transfers),
        "needs": stories.mib(data["frugal"]["side_stream"]["allocated"]),
        "emptied": stories.mib(data["expandable"]["emptied"]["reserved"]),
        "cost": f"{cost['frugal'] / stories.GIB:.1f}",
    }


def _amounts(runs: dict[str, Any], cost: int) -> list[str]:
    side, current, tight = (stories.mib(runs[run]["reserved"]) for run in _RUNS)
    retries = runs["side_stream_tight"]["retries"]
    return [side, current, stories.mib(cost), f"{tight}, {retries} retry" if retries else tight]


def _after(held: list[int]) -> list[str]:
    return [f"{stories.mib(held[transfers - 1])} MiB" for transfers in (1, 8, 16, 24)]
