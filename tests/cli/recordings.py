"""Recordings to feed the command with."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

MIB = 1 << 20


class Recording:
    """A torch memory snapshot in the making. Addresses are megabytes apart; sizes in bytes."""

    def __init__(self) -> None:
        self.trace: list[dict[str, Any]] = []
        self.blocks: list[dict[str, Any]] = []

    def allocate(self, address: int, size: int, stream: int = 0) -> Recording:
        return self._add("alloc", address, size, stream)

    def request_free(self, address: int, size: int, stream: int = 0) -> Recording:
        return self._add("free_requested", address, size, stream)

    def complete_free(self, address: int, size: int, stream: int = 0) -> Recording:
        return self._add("free_completed", address, size, stream)

    def free(self, address: int, size: int, stream: int = 0) -> Recording:
        return self.request_free(address, size, stream).complete_free(address, size, stream)

    def survivor(self, address: int, size: int, state: str = "active_allocated") -> Recording:
        self.blocks.append({"address": address, "size": size + 100, "requested_size": size, "state": state})
        return self

    def snapshot(self) -> dict[str, Any]:
        segment = {"device": 0, "address": 0, "stream": 0, "total_size": 1 << 40, "blocks": self.blocks}
        return {"device_traces": [self.trace], "segments": [segment] if self.blocks else []}

    def write(self, path: Path) -> Path:
        path.write_bytes(pickle.dumps(self.snapshot()))
        return path

    def _add(self, action: str, address: int, size: int, stream: int) -> Recording:
        self.trace.append({"action": action, "addr": address, "size": size, "stream": stream})
        return self


def kineto(entries: list[tuple[int, int, int]], **changes: Any) -> bytes:
    """A Chrome trace with one [memory] instant for each (address, signed bytes, total allocated)."""
    instants = [
        {
            "name": "[memory]",
            "ts": 1000 + number,
            "args": {
                "Ev Idx": number,
                "Device Type": 1,
                "Device Id": 0,
                "Addr": address,
                "Bytes": size,
                "Total Allocated": total,
                **changes,
            },
        }
        for number, (address, size, total) in enumerate(entries)
    ]
    return json.dumps({"traceEvents": [{"name": "aten::empty", "ts": 0}, *instants]}).encode()
