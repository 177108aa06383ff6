"""What is known of one history: ours, its rivals', what other options would have made of it, and the bound."""

from __future__ import annotations

import dataclasses

from ..suite import Workload
from .figures import Figures

OURS, EXPANDABLE, NATIVE = "ours", "expandable", "native"


@dataclasses.dataclass(frozen=True)
class Case:
    workload: Workload
    # The least memory in which any placement could complete.
    bound_bytes: int
    # Of OURS, EXPANDABLE and NATIVE, the last in ample memory alone; and of ours with alternatives, by their titles.
    figures: dict[str, Figures]

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def ours(self) -> Figures:
        return self.figures[OURS]

    @property
    def expandable(self) -> Figures:
        return self.figures[EXPANDABLE]
