"""What pictures of stories share: lines of what was in use and held, step by step, and how figures are told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .line_chart import Kind, Line, Mark

GIB = 1 << 30
KINDS: dict[str, Kind] = {"native": "native", "expandable": "expandable", "frugal": "ours"}
NAMES = {"native": "PyTorch", "expandable": "expandable segments", "frugal": "frugal_alloc"}


def gib(size: float) -> str:
    return f"{size / GIB:.2f}"


def mib(size: float) -> str:
    return f"{size / (1 << 20):,.0f}"


def word(count: int) -> str:
    return ("no", "one", "two", "three", "four")[count]


def most(run: dict[str, Any]) -> tuple[int, int]:
    """The most in use, and the most held."""
    used, held = zip(*run["steps"], strict=True)
    return max(used), max(held)


def refused(run: dict[str, Any]) -> dict[str, str]:
    """What PyTorch's error says: what was asked for, and what of its own was free."""
    request = re.search(r"Tried to allocate (\S+ MiB)", run["error"])
    free = re.search(r"and (\S+ MiB) is reserved by PyTorch but unallocated", run["error"])
    return {"refused": request[1], "free": free[1]}


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
