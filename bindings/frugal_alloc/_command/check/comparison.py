"""What a run takes more, or less, than the baseline says."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .baseline import Baseline
from .figures import Figures, Line
from .runs import Run

# What the allocator may take from the driver at once, for a request that would have found room in what was held before.
_SEGMENT_BYTES = 20 << 20
_ALIKE = 0.99


class Allowance(NamedTuple):
    """How much more is no regression: bytes, or a share of what it was."""

    bytes: int = 0
    share: float = 0.0

    def exceeded(self, before: int, now: int) -> bool:
        return now > before + max(self.bytes, int(before * self.share))


class Growth(NamedTuple):
    """Of one figure of one test."""

    figure: str  # a field of Figures
    before: int
    now: int
    #: What grew most, with the bytes by which it did; of the waste, what most of the memory was handed out to.
    line: Line | None = None


class Change(NamedTuple):
    """What is worse in one test, fixture or process."""

    name: str
    growths: tuple[Growth, ...]
    #: Of the driver's calls that are more: how often before and now.
    calls: Mapping[str, tuple[int, int]] = {}


class Comparison(NamedTuple):
    regressions: tuple[Change, ...]
    #: Names, with the bytes at the peak, before and now.
    less: tuple[tuple[str, int, int], ...]
    new: tuple[tuple[str, Figures], ...]
    #: Of the baseline: not run, run without memory of the GPU, and failed or skipped.
    missing: tuple[str, ...]
    idle: tuple[str, ...]
    not_passed: tuple[str, ...]
    #: Those with figures that differ from run to run.
    unsteady: tuple[str, ...]
    compared: int


def compare(baseline: Baseline, run: Run, allowance: Allowance) -> Comparison:
    before, now = baseline.records, run.records
    both = sorted(before.keys() & now.keys())
    excess = _Leaks(before, now, allowance)
    changes = (_change(name, before[name], now[name], excess, allowance) for name in both)
    gone = sorted(before.keys() - now.keys())
    return Comparison(
        regressions=tuple(change for change in changes if change is not None),
        less=tuple(
            (name, before[name].peak or 0, now[name].peak or 0) for name in both if _is_less(before[name], now[name])
        ),
        new=tuple((name, now[name]) for name in sorted(now.keys() - before.keys())),
        missing=tuple(name for name in gone if name not in run.passed | run.not_passed),
        idle=tuple(name for name in gone if name in run.passed),
        not_passed=tuple(name for name in gone if name in run.not_passed),
        unsteady=tuple(name for name in both if before[name].peak is None or now[name].peak is None),
        compared=len(both),
    )


def _change(name: str, before: Figures, now: Figures, leaks: _Leaks, allowance: Allowance) -> Change | None:
    growths = [
        growth
        for growth in (_peak(before, now, allowance), _gpu(before, now, allowance), leaks.growth(name))
        if growth is not None
    ]
    # A figure that was had with the allocator empty is the same each time; with memory from before it need not be.
    is_exact = not before.slack and not now.slack
    calls = {}
    if is_exact and before.calls is not None and now.calls is not None:
        counts = {kind: (before.calls.get(kind, 0), now.calls.get(kind, 0)) for kind in sorted(now.calls)}
        calls = {kind: pair for kind, pair in counts.items() if allowance._replace(bytes=0).exceeded(*pair)}
    return Change(name, tuple(growths), calls) if growths or calls else None


def _peak(before: Figures, now: Figures, allowance: Allowance) -> Growth | None:
    if before.peak is None or now.peak is None or before.released is None or now.released is None:
        return None
    # What is kept may be a cache that the first test to need it fills. Of what a test stops keeping, it may take more.
    if not allowance.exceeded(before.peak, now.peak) or not allowance.exceeded(before.released, now.released):
        return None
    return Growth("peak", before.peak, now.peak, grown_most(before.lines, now.lines))


def _gpu(before: Figures, now: Figures, allowance: Allowance) -> Growth | None:
    """The waste is what the GPU's memory is looked at for beside the peak: as long as that does not grow, it harms
    nobody."""
    if before.gpu is None or now.gpu is None:
        return None
    slack = before.slack + _SEGMENT_BYTES if before.slack else 0
    if not allowance.exceeded(before.gpu + slack, now.gpu):
        return None
    if before.waste is not None and now.waste is not None and now.waste - before.waste >= (now.gpu - before.gpu) // 2:
        return Growth("waste", before.waste, now.waste, next(iter(now.lines), None))
    return Growth("gpu", before.gpu, now.gpu, grown_most(before.lines, now.lines))


def _is_less(before: Figures, now: Figures) -> bool:
    if before.peak is None or now.peak is None or before.released is None or now.released is None:
        return False
    return now.peak < before.peak and now.released < before.released


class _Leaks:
    """What is kept after tests. The first test to need a cache keeps it for all, and which is first is a matter of
    order: so it is a leak only if all tests together keep more of what one place has made."""

    def __init__(self, before: Mapping[str, Figures], now: Mapping[str, Figures], allowance: Allowance) -> None:
        self._before, self._now, self._allowance = before, now, allowance
        had = _by_maker(before.values())
        # What is new leaks as well, but no test of the baseline is to blame for it.
        has = _by_maker(figures for name, figures in now.items() if name in before)
        self._excess = {maker for maker, size in has.items() if size > had.get(maker, 0)}

    def growth(self, name: str) -> Growth | None:
        before, now = self._before[name], self._now[name]
        if before.leaked is None or now.leaked is None or not self._allowance.exceeded(before.leaked, now.leaked):
            return None
        if not self._excess & {line.maker for line in now.leaks}:
            return None
        return Growth("leaked", before.leaked, now.leaked, grown_most(before.leaks, now.leaks))


def _by_maker(records: Iterable[Figures]) -> collections.Counter[str]:
    sums: collections.Counter[str] = collections.Counter()
    for figures in records:
        for line in figures.leaks:
            sums[line.maker] += line.bytes
    return sums


def grown_most(before: Iterable[Line], now: Iterable[Line]) -> Line | None:
    """The line whose bytes grew most, with the bytes by which they did; None: none did.

    Lines are the same if file, function and text are. Of those that are left over, each takes the place of the one
    before it in the same function: a line that was edited.
    """
    old, new = _sums(before), _sums(now)
    grown = {key: line.bytes - old[key].bytes if key in old else line.bytes for key, line in new.items()}
    edited = _by_function(line for key, line in old.items() if key not in new)
    for function, lines in _by_function(line for key, line in new.items() if key not in old).items():
        for line, earlier in zip(lines, edited.get(function, []), strict=False):
            grown[line.key] -= earlier.bytes
    most = max(grown, key=lambda key: (grown[key], key), default=None)
    if most is None or grown[most] <= 0:
        return None
    # Of those in its function that grew about alike, the first is where it began.
    alike = [key for key in grown if key[:2] == most[:2] and grown[key] >= _ALIKE * grown[most]]
    first = min(alike, key=lambda key: new[key].line)
    return new[first]._replace(bytes=grown[first])


def _sums(lines: Iterable[Line]) -> dict[tuple[str, str, str], Line]:
    sums: dict[tuple[str, str, str], Line] = {}
    for line in lines:
        known = sums.get(line.key)
        sums[line.key] = line if known is None else known._replace(bytes=known.bytes + line.bytes)
    return sums


def _by_function(lines: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    by_function: dict[tuple[str, str], list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.line):
        by_function.setdefault((line.file, line.function), []).append(line)
    return by_function
