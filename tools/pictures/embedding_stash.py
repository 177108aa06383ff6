"""What is held while tables leave the GPU in each step and come back: the sizes of meta-pytorch/torchrec#4584.

It was run on the simulated GPU: examples/stories/embedding_stash.py, docs/pictures/embedding_stash.json.
"""

from __future__ import annotations

from typing import Any

from . import ROOT, simulated_run, stories

PROGRAM = ROOT / "examples" / "stories" / "embedding_stash.py"
_GPU = "96GiB"


def record() -> dict[str, Any]:
    """Runs the program with each allocator. Of each step (most bytes in tensors, most bytes held)."""
    runs = [("--allocator", allocator) for allocator in stories.NAMES]
    found = simulated_run.completed(PROGRAM, runs, ("--memory", _GPU))
    return {"gpu": _GPU} | {name: {"steps": run["steps"]} for name, run in zip(stories.NAMES, found, strict=True)}


def told(data: dict[str, Any]) -> dict[str, str]:
    held = {allocator: stories.gib(stories.most(data[allocator])[1]) for allocator in stories.NAMES}
    return {"needs": stories.gib(stories.most(data["frugal"])[0]), **held}
