"""A training and a server that share a GPU: what both hold where free memory is kept, and where it goes back.

It was run on the simulated GPU: examples/stories/tenants.py, docs/pictures/tenants.json.
"""

from __future__ import annotations

import os
from typing import Any

from . import ROOT, pages, simulated_run, stories

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


def record() -> dict[str, Any]:
    """Of each run its turns, (tenant, action, most bytes in use, in use then, held then), who failed and the error."""
    gpu = ("--memory", GPU, "--node", f"tenants-{os.getpid()}")
    found = simulated_run.several(PROGRAM, list(RUNS.values()), gpu)
    return {"gpu": GPU} | {name: _kept(run) for name, run in zip(RUNS, found, strict=True)}


def _kept(run: dict[str, Any]) -> dict[str, Any]:
    error = stories.error(run) if run["failed"] else None
    return {"failed": run["failed"], "error": error, "turns": run["turns"]}


def both(run: dict[str, Any]) -> list[tuple[int, int]]:
    """At the end of each turn, what both had in use at most, and hold; one of them waits meanwhile."""
    found = []
    in_use, held = {"training": 0, "server": 0}, {"training": 0, "server": 0}
    for name, _, most, then, kept in run["turns"]:
        waits = "server" if name == "training" else "training"
        in_use[name], held[name] = then, kept
        found.append((most + in_use[waits], sum(held.values())))
    return found


def told(data: dict[str, Any]) -> dict[str, str]:
    return {
        "runs": pages.rows(*((stories.NAMES[one], *_held(data[f"{one}_gives_back"])) for one in stories.NAMES)),
        "holds": stories.gib(_most(data["frugal_keeps"], "evaluate", 4)),
        "takes": stories.gib(_most(data["frugal_keeps"], "busy", 4)),
        "evaluate": stories.gib(_most(data["frugal_gives_back"], "evaluate", 2)),
        "busy": stories.gib(_most(data["frugal_gives_back"], "busy", 2)),
    }


def _held(run: dict[str, Any]) -> list[str]:
    """In evaluation by the training, by the busy server, and by both at most."""
    sizes = (_most(run, "evaluate", 4), _most(run, "busy", 4), max(held for _, held in both(run)))
    return [f"{stories.gib(size)} GiB" for size in sizes]


def _most(run: dict[str, Any], action: str, place: int) -> int:
    """In use (2) or held (4) in turns of that kind."""
    return max(turn[place] for turn in run["turns"] if turn[1] == action)
