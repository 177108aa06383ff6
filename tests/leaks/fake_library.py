"""What the library tells of sites, epochs and memory in use, as a test says it."""

from __future__ import annotations

from types import SimpleNamespace

from frugal_alloc._native.sites import PrivatePool


class FakeLibrary:
    """Counts epochs as the library does."""

    def __init__(self) -> None:
        self.ended = 0
        self.usages: list[SimpleNamespace] = []
        #: By GPU.
        self.allocated: dict[int, int] = {0: 0}
        self.reserved: dict[int, int] = {}
        self.peaks: dict[int, int] = {}
        self.found: list[SimpleNamespace] = []
        self.pools: list[PrivatePool] = []

    def epoch_end(self) -> None:
        self.ended += 1

    def epochs_ended(self) -> int:
        return self.ended

    def halve_epochs(self) -> None:
        self.ended //= 2

    def count_module_calls(self, counts: bool) -> None:
        pass

    def module_calls_to_epoch(self) -> int:
        return 128

    def collapse_epochs(self) -> None:
        self.ended = min(self.ended, 1)

    def site_usages(self) -> list[SimpleNamespace]:
        return self.usages

    def findings(self) -> list[SimpleNamespace]:
        return self.found

    def private_pools(self) -> list[PrivatePool]:
        return self.pools

    def hold(self, live_bytes: int, blocks: int = 1, site: int = 1) -> None:
        """From now on this is all that is in use."""
        self.usages = [SimpleNamespace(gpu=0, site=site, live_bytes=live_bytes, blocks=blocks)]
        self.allocated[0] = live_bytes

    def gpus(self) -> list[int]:
        return list(self.allocated)

    def stats(self, gpu: int) -> dict[str, int]:
        return {"allocated_bytes": self.allocated[gpu], "reserved_bytes": self.reserved.get(gpu, self.allocated[gpu])}

    def take_peak(self, gpu: int) -> tuple[int, int, int]:
        stats = self.stats(gpu)
        return self.peaks.get(gpu, 0), stats["allocated_bytes"], stats["reserved_bytes"]
