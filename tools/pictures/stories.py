"""What the stories' figures share: how amounts and errors are told."""

from __future__ import annotations

import re
from typing import Any

GIB = 1 << 30
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


def error(run: dict[str, Any]) -> str:
    """What PyTorch or frugal_alloc says of the memory that ran out, without the name of the report's file."""
    said = run["said"]
    lines = said[said.index("CUDA out of memory") :].rstrip().splitlines()
    return "\n".join(one.rstrip() for one in lines if not one.startswith("Report:"))


def excerpt(error: str, *entries: str) -> str:
    """Of frugal_alloc's error its verdict, and the entries that begin so; `...` stands for what is left out."""
    sentence, rest = error.split("\n", 1)
    verdict, others = re.split(r"^(?=Request )", rest, maxsplit=1, flags=re.MULTILINE)
    parts = [f"{sentence}\n", verdict, *re.split(r"^(?=\S)", others, flags=re.MULTILINE)]
    kept = "".join(one if one is verdict or one.startswith(entries) else "...\n" for one in parts if one)
    return re.sub(r"(?:\.\.\.\n)+", "...\n", kept).rstrip()
