"""A dump of the BFC allocator of TensorFlow."""

from __future__ import annotations

import collections
import dataclasses
import re


@dataclasses.dataclass
class Dump:
    """What the allocator said when a request failed."""

    allocator: str
    step: int | None
    requested_bytes: int
    op: str
    limit_bytes: int = 0
    in_use_bytes: int = 0
    peak_bytes: int = 0
    # Of each chunk in use that size occurs so often; with the op where the build of TensorFlow records it.
    held: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    # (bytes, [(address, bytes, in use)])
    regions: list[tuple[int, list[tuple[int, int, bool]]]] = dataclasses.field(default_factory=list)
    # "[16,256,64,64] float", where the error tells.
    tensor: str = ""

    @property
    def gpu(self) -> int:
        found = re.search(r"GPU_(\d{1,4})_", self.allocator, re.IGNORECASE)
        return int(found[1]) if found else 0

    @property
    def pool_bytes(self) -> int:
        return sum(size for size, _ in self.regions)

    @property
    def free_chunks(self) -> list[int]:
        return [size for _, chunks in self.regions for _, size, in_use in chunks if not in_use]
