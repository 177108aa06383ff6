"""The choices that the policy's options are, what else each might have been, and what that would have changed."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable

from ..suite import AMPLE
from .figures import Case, Figures

# Where an alternative is played.
RATIOS = (AMPLE, 1.25, 1.05, 1.02)
NEVER_REACHED = 1 << 40

# By option of allocator/port/policy_options.h: values, and what one says that is more than another amount. An option
# that is not here is tried at half and at double its value.
VALUES: dict[str, dict[int, str]] = {
    "waste_part": {8: "", 16: "", 64: "", NEVER_REACHED: "no memory beyond the most in use"},
    "piece_part": {256: "", 512: "", 2048: ""},
    "request_part": {4: "", 8: "", 16: ""},
    "largest_piece": {1: "pages of 2 MiB alone", 4: "", 32: ""},
    "most_edges": {3: "", 16: ""},
    "unmap_weight": {1: "no weight", 100: ""},
    "homes": {0: "handles stay where they were moved"},
    "past_stitches": {0: "no place is tried again"},
}

# What is compared with what, of one history each: before and after.
Pairs = list[tuple[Figures, Figures]]


@dataclasses.dataclass(frozen=True)
class Alternative:
    """One option with another value."""

    option: str
    value: int
    instead_of: int
    # What the value says; empty: it is just another amount.
    words: str

    @property
    def title(self) -> str:
        return f"{self.option}={self.value}"


def alternatives(options: dict[str, int], chosen: list[str] | None = None) -> list[Alternative]:
    """Of the options chosen, or of all, with their present values in `options`."""
    found = []
    for option, present in options.items():
        if chosen is not None and option not in chosen:
            continue
        values = VALUES.get(option) or {present // 2: "", present * 2: ""}
        found += [Alternative(option, value, present, words) for value, words in values.items() if value != present]
    return found


@dataclasses.dataclass(frozen=True)
class Effect:
    """Over the histories in which both sides have the figure; None: there is none."""

    # Of driver time: the geometric mean of one over the other.
    ample: float | None
    scarce: float | None
    # Means: memory in use at 4x, the smallest GPU over live memory, ms for 1,000 allocations at 1.05x.
    in_use: float | None
    smallest: float | None
    warm: float | None
    # Plays that ran out of memory.
    failures: int


def level(cases: list[Case]) -> Effect:
    """Ours as it is; driver time over expandable segments'."""
    ours = [case.ours for case in cases]
    return Effect(
        **_driver_time([(case.expandable, case.ours) for case in cases]),
        **{name: _mean(figure(figures) for figures in ours) for name, figure in _MEANS.items()},
        failures=sum(map(_failures, ours)),
    )


def difference(pairs: Pairs) -> Effect:
    """From what is to what would be."""

    def change(figure: Callable[[Figures], float | None]) -> float | None:
        values = [(figure(before), figure(after)) for before, after in pairs]
        return _mean(after - before for before, after in values if before is not None and after is not None)

    return Effect(
        **_driver_time(pairs),
        **{name: change(figure) for name, figure in _MEANS.items()},
        failures=sum(_failures(after) - _failures(before) for before, after in pairs),
    )


_MEANS: dict[str, Callable[[Figures], float | None]] = {
    "in_use": lambda figures: figures.in_use(AMPLE),
    "smallest": lambda figures: figures.smallest,
    "warm": lambda figures: figures.warm_ms(1.05),
}


def _driver_time(pairs: Pairs) -> dict[str, float | None]:
    def mean(ratio: float) -> float | None:
        times = [(before.driver_ms(ratio), after.driver_ms(ratio)) for before, after in pairs]
        ratios = [after / before for before, after in times if before is not None and after is not None]
        return statistics.geometric_mean(ratios) if ratios else None

    return {"ample": mean(AMPLE), "scarce": mean(1.25)}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _failures(figures: Figures) -> int:
    return sum(not figures.plays[ratio].completed for ratio in RATIOS)
