"""A detector that is trained on images of changing sizes, on a GPU of 8 GiB.

It was run on the simulated GPU: examples/stories/detection.py, docs/pictures/detection.json.
"""

from __future__ import annotations

from typing import Any

from . import ROOT, pages, simulated_run, stories

PROGRAM = ROOT / "examples" / "stories" / "detection.py"
GPU = "RTX 3070"
_GROUPED = ("--grouped", "--largest", "704")
# By name: the program's arguments.
RUNS = {
    **{f"mixed_{one}": ("--allocator", one, "--seed", "3") for one in stories.NAMES},
    **{one: ("--allocator", one, *_GROUPED, "--seed", "3") for one in stories.NAMES},
    "native_seed_0": ("--allocator", "native", *_GROUPED, "--seed", "0"),
    "native_seed_1": ("--allocator", "native", *_GROUPED, "--seed", "1"),
    "native_seed_2": ("--allocator", "native", *_GROUPED, "--seed", "2"),
}
ORDERS = ("0", "1", "2", "3")
# Less than this many images is what is looked for.
_TOO_MANY = 6


def record() -> dict[str, Any]:
    """Each run's steps, (most bytes in use, most held), the step that failed and the error, and the largest batches."""
    runs = {name: _kept(run) for name, run in zip(RUNS, _ends(list(RUNS.values())), strict=True)}
    return {"gpu": GPU, **runs, "largest_batch": _largest_batches()}


def _largest_batches() -> dict[str, list[int]]:
    """By allocator, the most images a step with which the grouped training completes in each of the ORDERS."""
    pairs = [(one, order) for one in stories.NAMES for order in ORDERS]
    fits, fails = dict.fromkeys(pairs, 0), dict.fromkeys(pairs, _TOO_MANY)
    while unknown := [pair for pair in pairs if fails[pair] - fits[pair] > 1]:
        tried = {pair: (fits[pair] + fails[pair]) // 2 for pair in unknown}
        runs = [
            ("--allocator", one, *_GROUPED, "--seed", order, "--batch", str(tried[one, order]))
            for one, order in unknown
        ]
        for pair, run in zip(unknown, _ends(runs), strict=True):
            (fails if run["failed_in"] else fits)[pair] = tried[pair]
    return {one: [fits[one, order] for order in ORDERS] for one in stories.NAMES}


def _ends(runs: list[tuple[str, ...]]) -> list[dict[str, Any]]:
    return simulated_run.several(PROGRAM, runs, ("--gpu", GPU), ("torchvision",))


def _kept(run: dict[str, Any]) -> dict[str, Any]:
    failed = run["failed_in"]
    return {
        "failed_in": failed,
        "gpu_bytes": run["gpu_bytes"],
        "error": None if failed is None else stories.error(run),
        "steps": run["steps"],
    }


def told(data: dict[str, Any]) -> dict[str, str]:
    failures = [data["native" if order == "3" else f"native_seed_{order}"]["failed_in"] for order in ORDERS]
    return {
        "error": stories.excerpt(data["mixed_frugal"]["error"], "Change first"),
        "runs": pages.rows(*(_row(data, one) for one in stories.NAMES)),
        **stories.refused(data["native"]),
        "gpu": stories.gib(data["native"]["gpu_bytes"]),
        "needs": stories.gib(stories.most(data["frugal"])[0]),
        "orders_failed": stories.word(sum(map(bool, failures))),
        "orders": stories.word(len(failures)),
    }


def _row(data: dict[str, Any], name: str) -> tuple[str, ...]:
    run, batches = data[name], data["largest_batch"][name]
    end = f"out of memory in step {run['failed_in']}" if run["failed_in"] else f"completes {len(run['steps'])} steps"
    return stories.NAMES[name], f"{stories.gib(stories.most(run)[1])} GiB", end, ", ".join(map(str, batches))
