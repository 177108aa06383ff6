"""Free memory that a request could not use, by the reason why."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._common.messages import format_bytes as size


class Fragmentation(NamedTuple):
    hard_bytes: int  # free, in pages that live blocks share
    soft_bytes: int  # free and usable, yet not joined into one block
    stream_bytes: int  # freed, and still in use by a stream

    @property
    def text(self) -> str:
        soft = f"{size(self.soft_bytes)} in separate pieces"
        soft += " that this GPU cannot map side by side" if self.soft_bytes else ""
        return (
            f"{size(self.hard_bytes)} in pages that live tensors share, {soft}, "
            f"{size(self.stream_bytes)} waiting for a stream"
        )


def measure(facts: Any, can_map: bool) -> Fragmentation:
    """`can_map`: whether the GPU maps memory, so that free pages join wherever they lie."""
    free = facts.reserved_bytes - facts.allocated_bytes - facts.awaiting_bytes
    soft = 0 if can_map else max(0, free - facts.unusable_bytes - facts.largest_free_bytes)
    return Fragmentation(facts.unusable_bytes, soft, facts.awaiting_bytes)
