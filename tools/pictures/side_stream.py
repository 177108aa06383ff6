"""What a stream that is used once keeps from all others: the pattern of NVIDIA/Megatron-LM#6885.

It was run on the simulated GPU: examples/stories/side_stream.py, docs/pictures/side_stream.json.
"""

from __future__ import annotations

from typing import Any

from . import ROOT, pages, simulated_run, stories

PROGRAM = ROOT / "examples" / "stories" / "side_stream.py"
FRESH_STREAMS = ROOT / "examples" / "stories" / "fresh_streams.py"
ALLOCATORS = ("native", "expandable", "frugal")
# Roomy: of an H200. Tight: of an H100.
ROOMY, TIGHT = "141GiB", "80GiB"
_RUNS = ("side_stream", "current_stream", "side_stream_tight")


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
            "side_stream": roomy[place]["most"],
            "current_stream": roomy[len(chosen) + place]["most"],
            "side_stream_tight": tight[place]["most"],
        }
    found["expandable"]["emptied"] = roomy[-1]["most"]
    # Bytes held after each transfer.
    fresh = simulated_run.completed(FRESH_STREAMS, [("--same-streams",), *chosen], ("--memory", TIGHT))
    found["transfers"] = {run: one["held"] for run, one in zip(("same_streams", *ALLOCATORS), fresh, strict=True)}
    return found


def told(data: dict[str, Any]) -> dict[str, str]:
    return {
        "runs": pages.rows(*((stories.NAMES[one], *_amounts(data[one])) for one in ALLOCATORS)),
        "needs": stories.mib(data["frugal"]["side_stream"]["allocated"]),
        "emptied": stories.mib(data["expandable"]["emptied"]["reserved"]),
        # After as many transfers as PyTorch's streams last for.
        **{f"{run}_transfers": stories.mib(held[15]) for run, held in data["transfers"].items()},
    }


def _amounts(runs: dict[str, Any]) -> list[str]:
    side, current, tight = (runs[run]["reserved"] for run in _RUNS)
    return [f"{stories.mib(size)} MiB" for size in (side, current, side - current, tight)]
