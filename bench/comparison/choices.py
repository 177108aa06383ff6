"""The choices that the policy's options are, what else each might have been, and what that would have changed."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from typing import NamedTuple

from ..suite import AMPLE
from ..table import NONE, Table
from .figures import Case, Figures
from .tables import beside, fraction, hundredths, part, signed

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


@dataclasses.dataclass(frozen=True)
class Alternative:
    """One option with another value."""

    option: str
    value: int
    instead_of: int
    # What the value says; empty: it is just another amount.
    says: str

    @property
    def title(self) -> str:
        return f"{self.option}={self.value}"

    @property
    def words(self) -> str:
        """As tables have it."""
        value = "\N{INFINITY}" if self.value >= NEVER_REACHED else f"{self.value:,}"
        return f"`{self.option}` {self.instead_of:,}: {value}" + (f" ({self.says})" if self.says else "")


def alternatives(options: dict[str, int], chosen: list[str] | None = None) -> list[Alternative]:
    """Of the options chosen, or of all, with their present values in `options`."""
    found = []
    for option, present in options.items():
        if chosen is not None and option not in chosen:
            continue
        values = VALUES.get(option) or {present // 2: "", present * 2: ""}
        found += [Alternative(option, value, present, says) for value, says in values.items() if value != present]
    return found


class _Column(NamedTuple):
    head: str
    figure: Callable[[Figures], float | None]
    # How the figure itself is written. Of driver time it is that over expandable segments'.
    form: Callable[[float | None], str]
    # Of the change; None: it is a ratio.
    digits: int | None


_COLUMNS = (
    _Column("driver time at 4x", lambda figures: figures.driver_ms(AMPLE), hundredths, None),
    _Column("at 1.25x", lambda figures: figures.driver_ms(1.25), hundredths, None),
    _Column("in use at 4x", lambda figures: figures.in_use(AMPLE), part, 4),
    _Column("smallest GPU", lambda figures: figures.smallest, fraction, 4),
    _Column("warm at 1.05x", lambda figures: figures.warm_ms(1.05), hundredths, 2),
)


def table(cases: list[Case], tried: list[Alternative]) -> Table:
    """What each alternative changes, in recorded / generated histories."""
    kinds = [[case for case in cases if case.workload.is_recorded is recorded] for recorded in (True, False)]
    rows = [["(as it is)", *map(beside, zip(*map(_level, kinds), strict=True))]]
    for alternative in tried:
        changes = [difference([(case.ours, case.figures[alternative.title]) for case in kind]) for kind in kinds]
        rows.append([alternative.words, *map(beside, zip(*changes, strict=True))])
    return Table(["option", *(column.head for column in _COLUMNS), "failures"], rows)


def _level(cases: list[Case]) -> list[str]:
    """Ours as it is, a cell for each column."""
    found = []
    for figure, form, digits in (column[1:] for column in _COLUMNS):
        if digits is None:
            found.append(form(_ratio([(figure(case.expandable), figure(case.ours)) for case in cases])))
        else:
            known = [value for case in cases if (value := figure(case.ours)) is not None]
            found.append(form(statistics.fmean(known) if known else None))
    return [*found, str(sum(_failures(case.ours) for case in cases))]


def difference(pairs: list[tuple[Figures, Figures]]) -> list[str]:
    """From what is to what would be, likewise, over the histories in which both sides have the figure."""
    found = []
    for _, figure, _, digits in _COLUMNS:
        values = [(figure(before), figure(after)) for before, after in pairs]
        if digits is None:
            ratio = _ratio(values)
            found.append(NONE if ratio is None else f"{signed(100 * (ratio - 1), 0)} %")
        else:
            known = [after - before for before, after in values if before is not None and after is not None]
            found.append(signed(statistics.fmean(known) if known else None, digits))
    return [*found, signed(sum(_failures(after) - _failures(before) for before, after in pairs), 0)]


def _ratio(pairs: list[tuple[float | None, float | None]]) -> float | None:
    """The geometric mean of one over the other."""
    ratios = [after / before for before, after in pairs if before is not None and after is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def _failures(figures: Figures) -> int:
    """Plays that ran out of memory."""
    return sum(not figures.plays[ratio].completed for ratio in RATIOS)
