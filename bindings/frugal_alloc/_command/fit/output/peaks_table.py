"""The table phase by component, and ranks that have the same one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..verdict import COMPONENTS, Moment, RankPeaks, Verdict


@dataclasses.dataclass(frozen=True)
class PeaksTable:
    """What was in use when each phase needed most; a column for each phase."""

    moments: tuple[Moment, ...]
    # By component, bytes for each column; those that any column has.
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    # The number of the column that is the rank's peak.
    peak: int

    @classmethod
    def of(cls, rank: RankPeaks) -> PeaksTable:
        moments = rank.phases
        # A name that we do not know is shown, too: else the columns would not add up.
        unknown = {name for moment in moments for name in moment.components} - set(COMPONENTS)
        rows = tuple(
            (name, tuple(moment.components.get(name, 0) for moment in moments))
            for name in (*COMPONENTS, *sorted(unknown))
            if any(moment.components.get(name) for moment in moments)
        )
        peak = next((number for number, moment in enumerate(moments) if moment.phase == rank.peak.phase), 0)
        return cls(moments, rows, peak)


@dataclasses.dataclass(frozen=True)
class RankGroup:
    """Ranks of which each phase took the same."""

    ranks: tuple[RankPeaks, ...]

    @property
    def first(self) -> RankPeaks:
        return self.ranks[0]

    @property
    def name(self) -> str:
        """ "rank 3", "ranks 0 to 7", "ranks 0, 2 and 5"."""
        numbers = sorted({rank.rank for rank in self.ranks})
        gpus = sorted({rank.gpu for rank in self.ranks})
        of_gpus = "" if len(self.ranks) == len(numbers) else f", GPUs {_listed(gpus)}"
        return f"rank{'s' if len(numbers) > 1 else ''} {_listed(numbers)}{of_gpus}"


def _listed(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    if len(numbers) < 2:
        return "".join(map(str, numbers))
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def rank_groups(verdict: Verdict) -> list[RankGroup]:
    """Those that need most first."""
    groups: dict[object, list[RankPeaks]] = {}
    for rank in verdict.ranks:
        key = tuple((one.phase, one.used_bytes, tuple(sorted(one.components.items()))) for one in rank.phases)
        groups.setdefault(key, []).append(rank)
    found = [RankGroup(tuple(ranks)) for ranks in groups.values()]
    return sorted(found, key=lambda group: -group.first.peak.used_bytes)
