"""What calls of PyTorch's memory functions give, and how it is noted for test_same_as_native.py to compare."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.cuda import memory

HERE = Path(__file__).parent
KIB, MIB = 1 << 10, 1 << 20

# Figures that say how the allocator got its memory, which is its own affair.
OWN = ("reserved_bytes", "segment", "inactive_split", "num_alloc_retries", "num_device_", "num_sync_all_streams")

SAME: dict[str, Any] = {}
SHAPE: dict[str, Any] = {}
CALLS: dict[str, Callable[[], None]] = {}


def call(*names: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Marks what calls the functions `names`; those that this torch lacks are left out."""

    def mark(function: Callable[[], None]) -> Callable[[], None]:
        for name in names:
            CALLS[name] = function
        return function

    return mark


def empty(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): shape(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        kinds = {json.dumps(shape(item), sort_keys=True) for item in value}
        return [type(value).__name__, sorted(kinds)]
    return type(value).__name__


def shared_figures(stats: dict[str, Any]) -> dict[str, int]:
    """The figures of memory_stats() on which every allocator must agree."""
    return {name: value for name, value in stats.items() if not name.startswith(OWN)}


def failure_of(action: Callable[[], Any]) -> str:
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "no error"


@contextlib.contextmanager
def recording(*arguments: Any, **options: Any) -> Iterator[None]:
    memory._record_memory_history(*arguments, **options)
    try:
        yield
    finally:
        memory._record_memory_history(None)


def blocks_in_use(segments: list[dict]) -> list[list]:
    blocks = [block for segment in segments for block in segment["blocks"] if block["state"] != "inactive"]
    return sorted([block["size"], block["requested_size"], block["state"]] for block in blocks)


def trace_of_blocks(snapshot: dict) -> list[list]:
    """What was recorded of blocks: action, size, stream, metadata and the line of ours that did it."""
    noted = ("action", "size", "stream", "user_metadata", "compile_context")
    entries = [entry for entry in snapshot["device_traces"][0] if not entry["action"].startswith("segment")]
    return [[*(entry.get(key) for key in noted), our_line(entry)] for entry in entries]


def our_line(entry: dict) -> str | None:
    ours = [frame for frame in entry.get("frames", ()) if Path(frame["filename"]).parent == HERE]
    return f"{ours[0]['name']}:{ours[0]['line']}" if ours else None
