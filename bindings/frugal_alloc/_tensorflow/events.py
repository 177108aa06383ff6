"""What a profile says of one moment of an allocator."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Event:
    """`held_bytes` are those in use after it; `tensor` is "float [4,64,64,3]", where the profile tells."""

    step: int
    held_bytes: int
    peak_bytes: int
    activity: str
    address: int
    bytes: int
    op: str
    tensor: str = ""

    @property
    def change(self) -> int:
        return {"ALLOCATION": 1, "DEALLOCATION": -1}.get(self.activity, 0) * self.bytes
