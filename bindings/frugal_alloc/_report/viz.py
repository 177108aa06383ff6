"""A report as PyTorch's memory snapshot, which pytorch.org/memory_viz and torch.cuda._memory_viz show."""

from __future__ import annotations

import pickle
from typing import Any

_STATES = {"allocated": "active_allocated", "awaiting": "active_awaiting_free", "free": "inactive"}


def to_snapshot(document: dict[str, Any]) -> dict[str, Any]:
    """The segments and blocks of a document as ``torch.cuda.memory._snapshot`` has them; no history of allocations."""
    gpus = [segment["gpu"] for segment in document["segments"]]
    return {
        "segments": [_segment(document, segment) for segment in document["segments"]],
        "device_traces": [[] for _ in range(max(gpus, default=-1) + 1)],
    }


def to_pickle(document: dict[str, Any]) -> bytes:
    """The snapshot as ``torch.cuda.memory._dump_snapshot`` writes it."""
    return pickle.dumps(to_snapshot(document), protocol=4)


def _segment(document: dict[str, Any], segment: dict[str, Any]) -> dict[str, Any]:
    blocks = [_block(document, segment["address"], *block) for block in segment["blocks"]]
    allocated = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    awaiting = sum(block["size"] for block in blocks if block["state"] == "active_awaiting_free")
    return {
        "device": segment["gpu"],
        "address": segment["address"],
        "total_size": segment["bytes"],
        "allocated_size": allocated,
        "active_size": allocated + awaiting,
        "requested_size": allocated + awaiting,
        "stream": segment["stream"],
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": segment["mapped"],
        "frames": [],
        "blocks": blocks,
    }


def _block(
    document: dict[str, Any], start: int, offset: int, size: int, state: str, site: int | None
) -> dict[str, Any]:
    stack = [] if site is None or state == "free" else document["sites"][site]["stack"]
    frames = (document["frames"][number] for number in stack)
    return {
        "address": start + offset,
        "size": size,
        "requested_size": size,
        "state": _STATES[state],
        "frames": [{"filename": one["file"], "line": one["line"], "name": one["function"]} for one in frames],
    }
