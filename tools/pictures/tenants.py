"""A training and a server that share a GPU: what both hold where free memory is kept, and where it goes back.

What is drawn was run on the simulated GPU: examples/stories/tenants.py, docs/pictures/tenants.json.
"""

from __future__ import annotations

import os
from typing import Any

from . import ROOT, pages, simulated_run, stories
from .line_chart import Kind, Level, Line, LineChart

PROGRAM = ROOT / "examples" / "stories" / "tenants.py"
GPU = "8GiB"
# Each process has a CUDA context.
AVAILABLE = 7 * stories.GIB
# By name: the program's arguments.
RUNS = {
    **{f"{one}_keeps": ("--allocator", one) for one in stories.NAMES},
    **{f"{one}_gives_back": ("--allocator", one, "--give-back") for one in stories.NAMES},
    "frugal_idle_release": ("--allocator", "frugal", "--idle-release"),
    # What the busy server leaves to the training.
    "frugal_limit": ("--allocator", "frugal", "--limit", "3328"),
}
_GIVES = {
    "keeps": "no",
    "gives_back": "yes",
    "idle_release": "by `idle_release`",
    "limit": "no, `memory_limit` of 3.25 GiB",
}


def record() -> dict[str, Any]:
    """Of each run its turns, (tenant, action, most bytes in use, in use then, held then), who failed and the error."""
    gpu = ("--memory", GPU, "--node", f"tenants-{os.getpid()}")
    found = simulated_run.several(PROGRAM, list(RUNS.values()), gpu)
    return {"gpu": GPU} | {name: _kept(run) for name, run in zip(RUNS, found, strict=True)}


def _kept(run: dict[str, Any]) -> dict[str, Any]:
    error = stories.error(run) if run["failed"] else None
    return {"failed": run["failed"], "error": error, "turns": run["turns"]}


def chart(data: dict[str, Any]) -> LineChart:
    kept = _line(data, "native_keeps", "bad", "PyTorch keeps it")
    return LineChart(
        title="A training and a server on a GPU of 8 GiB: what both hold",
        x_name="turns",
        unit="GiB",
        lines=(
            kept,
            _line(data, "native_gives_back", "native", "PyTorch gives back"),
            _line(data, "frugal_gives_back", "ours", "frugal_alloc gives back"),
            stories.line("in use", "live", [used for used, _ in both(data["frugal_gives_back"])], first=0),
        ),
        levels=(Level("available to both", AVAILABLE),),
        marks=(stories.out_of_memory(kept),),
    )


def both(run: dict[str, Any]) -> list[tuple[int, int]]:
    """At the end of each turn, what both had in use at most, and hold; one of them waits meanwhile."""
    found = []
    in_use, held = {"training": 0, "server": 0}, {"training": 0, "server": 0}
    for name, _, most, then, kept in run["turns"]:
        waits = "server" if name == "training" else "training"
        in_use[name], held[name] = then, kept
        found.append((most + in_use[waits], sum(held.values())))
    return found


def _line(data: dict[str, Any], run: str, kind: Kind, name: str) -> Line:
    return stories.line(name, kind, [held for _, held in both(data[run])], first=0)


def told(data: dict[str, Any]) -> dict[str, str]:
    most = {run: stories.gib(max(held for _, held in both(data[run]))) for run in RUNS}
    in_use = {action: _most(data["frugal_gives_back"], action, 2) for action in ("train", "evaluate", "busy")}
    return {
        "said": f"Both can have {AVAILABLE // stories.GIB} GiB. Where PyTorch keeps free memory, both hold "
        f"{most['native_keeps']} GiB when the server runs out of memory. Where phases end with empty_cache(), both "
        f"hold at most {most['native_gives_back']} GiB with PyTorch and {most['frugal_gives_back']} GiB with "
        "frugal_alloc.",
        "runs": pages.rows(*(_row(data[name], name, most[name]) for name in RUNS)),
        **in_use,
        **{one: most[f"{one}_gives_back"] for one in stories.NAMES},
    }


def _row(run: dict[str, Any], name: str, most: str) -> tuple[str, ...]:
    allocator, how = name.split("_", 1)
    end = f"the {run['failed']} runs out of memory" if run["failed"] else "both complete"
    held = [f"{size} GiB" if size != "-" else size for size in (_most(run, "evaluate", 4), _most(run, "busy", 4))]
    return stories.NAMES[allocator], _GIVES[how], *held, f"{most} GiB", end


def _most(run: dict[str, Any], action: str, place: int) -> str:
    """In use (2) or held (4) in turns of that kind."""
    return stories.gib(max(found)) if (found := [turn[place] for turn in run["turns"] if turn[1] == action]) else "-"
