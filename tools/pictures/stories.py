"""What pictures of stories share: lines of what was in use and held, step by step, and the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .line_chart import Kind, Line, Mark

GIB = 1 << 30
KINDS: dict[str, Kind] = {"native": "native", "expandable": "expandable", "frugal": "ours"}
NAMES = {"native": "PyTorch", "expandable": "expandable segments", "frugal": "frugal_alloc"}


def line(name: str, kind: Kind, values: Sequence[int], first: int = 1) -> Line:
    """One value for each step, the first of which is the step `first`."""
    return Line(name, kind, [(first + step, value) for step, value in enumerate(values)])


def held(allocator: str, run: dict[str, Any]) -> Line:
    return line(NAMES[allocator], KINDS[allocator], [held for _, held in run["steps"]])


def in_use(run: dict[str, Any]) -> Line:
    return line("in use", "live", [used for used, _ in run["steps"]])


def out_of_memory(course: Line) -> Mark:
    return Mark("out of memory", *course.points[-1], course.kind)


def error(run: dict[str, Any]) -> str:
    """What PyTorch or frugal_alloc says of the memory that ran out, without the name of the report's file."""
    said = run["said"]
    lines = said[said.index("CUDA out of memory") :].rstrip().splitlines()
    return "\n".join(one.rstrip() for one in lines if not one.startswith("Report:"))
