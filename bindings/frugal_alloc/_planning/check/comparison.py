"""What a run takes more, or less, than the baseline says, and how a reviewer would say it."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..._common.messages import format_bytes, format_count
from ..._program import code_lines
from .baseline import Baseline, Figures, Line

# What the allocator may take from the driver at once, for a request that would have found room in what was held before.
_SEGMENT_BYTES = 20 << 20
_ALIKE = 0.99
_MOST_NAMES = 10
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
_WORDS = {"peak": "peak", "gpu": "GPU memory", "waste": "allocator's waste", "leaked": "leaks"}


class Run(NamedTuple):
    """What came of running a command."""

    status: int
    #: By the names of tests, of fixtures that several share, and of processes.
    records: Mapping[str, Figures]
    #: Tests that passed, with or without memory of the GPU; and those that failed or were skipped.
    passed: frozenset[str]
    not_passed: frozenset[str]
    failed: frozenset[str]
    #: Every test that was found, run or not; None: tests were chosen one by one, so there may be others.
    collected: frozenset[str] | None
    #: Of PyTorch; "" where it was not imported.
    torch: str
    #: Why figures are missing.
    failures: tuple[str, ...]


class Allowance(NamedTuple):
    """How much more is no regression: bytes, or a share of what it was."""

    bytes: int = 0
    share: float = 0.0

    def exceeded(self, before: int | None, now: int | None) -> bool:
        """False where one is not known."""
        return before is not None and now is not None and now > before + max(self.bytes, int(before * self.share))


#: More than this is a change of the program. Less comes of a counter, or of a library's own small tensor.
NOISE = Allowance(bytes=512, share=0.001)


class Growth(NamedTuple):
    """Of one figure of one test."""

    figure: str  # a field of Figures
    before: int
    now: int
    #: What grew most, with the bytes by which it did; of the waste, what most of the memory was handed out to.
    line: Line | None = None
    #: Of what leaks: who has most of it now.
    holder: str = ""


class Change(NamedTuple):
    """What is worse in one test, fixture or process."""

    name: str
    growths: tuple[Growth, ...]
    #: Of the driver's calls that are more: how often before and now.
    calls: Mapping[str, tuple[int, int]] = {}


class Comparison(NamedTuple):
    """By the names that the JSON form has."""

    regressions: tuple[Change, ...]
    #: Names, with the bytes at the peak, before and now.
    less: tuple[tuple[str, int, int], ...]
    new: tuple[tuple[str, Figures], ...]
    #: Of the baseline: not run, run without memory of the GPU, and failed or skipped.
    missing: tuple[str, ...]
    without_gpu_memory: tuple[str, ...]
    not_passed: tuple[str, ...]
    #: Those with figures that differ from run to run.
    not_steady: tuple[str, ...]
    compared: int


def compare(baseline: Baseline, run: Run, allowance: Allowance) -> Comparison:
    before, now = baseline.records, run.records
    both = sorted(before.keys() & now.keys())
    gone = sorted(before.keys() - now.keys())
    leaking = _makers_that_leak_more(before, now)
    changes = (_change(name, before[name], now[name], leaking, allowance) for name in both)
    return Comparison(
        regressions=tuple(change for change in changes if change.growths or change.calls),
        less=tuple(
            (name, before[name].peak, now[name].peak)
            for name in both
            if _is_less(before[name].peak, now[name].peak) and _is_less(before[name].released, now[name].released)
        ),
        new=tuple((name, now[name]) for name in sorted(now.keys() - before.keys())),
        missing=tuple(name for name in gone if name not in run.passed | run.not_passed),
        without_gpu_memory=tuple(name for name in gone if name in run.passed),
        not_passed=tuple(name for name in gone if name in run.not_passed),
        not_steady=tuple(name for name in both if before[name].peak is None or now[name].peak is None),
        compared=sum(_share_a_figure(before[name], now[name]) for name in both),
    )


def _share_a_figure(before: Figures, now: Figures) -> bool:
    return any(None not in (getattr(before, name), getattr(now, name)) for name in (*_WORDS, "calls"))


def _is_less(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and now < before


def _change(name: str, before: Figures, now: Figures, leaking: set[str], allowance: Allowance) -> Change:
    growths = []
    # What is kept may be a cache that the first test to need it fills. Of what a test stops keeping, it may take more.
    if allowance.exceeded(before.peak, now.peak) and allowance.exceeded(before.released, now.released):
        growths.append(Growth("peak", before.peak, now.peak, grown_most(before.lines, now.lines)))
    slack = before.slack + _SEGMENT_BYTES if before.slack else 0
    if before.gpu is not None and allowance.exceeded(before.gpu + slack, now.gpu):
        growths.append(_growth_of_gpu(before, now))
    is_leaking = not leaking.isdisjoint(line.maker for line in now.leaks)
    if is_leaking and allowance.exceeded(before.leaked, now.leaked):
        line = grown_most(before.leaks, now.leaks)
        growths.append(Growth("leaked", before.leaked, now.leaked, line, now.holder))
    # A figure that was had with the allocator empty is the same each time; with memory from before it need not be.
    calls = {}
    if not before.slack and not now.slack and before.calls is not None and now.calls is not None:
        counts = {kind: (before.calls.get(kind, 0), now.calls.get(kind, 0)) for kind in sorted(now.calls)}
        calls = {kind: pair for kind, pair in counts.items() if allowance._replace(bytes=0).exceeded(*pair)}
    return Change(name, tuple(growths), calls)


def _growth_of_gpu(before: Figures, now: Figures) -> Growth:
    """The waste is what the GPU's memory is looked at for beside the peak: as long as that does not grow, it harms
    nobody."""
    if before.waste is not None and now.waste is not None and now.waste - before.waste >= (now.gpu - before.gpu) // 2:
        return Growth("waste", before.waste, now.waste, next(iter(now.lines), None))
    return Growth("gpu", before.gpu, now.gpu, grown_most(before.lines, now.lines))


def _makers_that_leak_more(before: Mapping[str, Figures], now: Mapping[str, Figures]) -> set[str]:
    """The first test to need a cache keeps it for all, and which is first is a matter of order: so it is a leak only if
    all tests together keep more of what one place has made."""

    def by_maker(records: Iterable[Figures]) -> collections.Counter[str]:
        sums: collections.Counter[str] = collections.Counter()
        for line in (line for figures in records for line in figures.leaks):
            sums[line.maker] += line.bytes
        return sums

    # What is new leaks as well, but no test of the baseline is to blame for it.
    known = (figures for name, figures in now.items() if name in before)
    return set(by_maker(known) - by_maker(before.values()))


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


def to_text(comparison: Comparison, notes: Iterable[str], status: str = "") -> str:
    """Regressions first, a line for each test; the last says what the exit status is, too, where that is told."""
    less, new = comparison.less, comparison.new
    lines = [f"{change.name}: {_text_of(change)}" for change in comparison.regressions]
    lines += [f"{name}: less than in the baseline, peak {_pair(*pair)}" for name, *pair in less[:_MOST_NAMES]]
    lines += [f"and {len(less) - _MOST_NAMES} more with a lower peak"] if len(less) > _MOST_NAMES else []
    lines += [f"{name}: new, {_figures(figures)}" for name, figures in new[:_MOST_NAMES]]
    lines += [f"and {len(new) - _MOST_NAMES} more are new"] if len(new) > _MOST_NAMES else []
    for what, names in (
        ("of the baseline, not run", comparison.missing),
        ("took no memory of the GPU this time", comparison.without_gpu_memory),
        ("not compared, since it did not pass", comparison.not_passed),
        ("peak not compared, since it differs from run to run or several threads allocate", comparison.not_steady),
    ):
        rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        several = f"{len(names)} {what}: {', '.join(names[:_MOST_NAMES])}{rest}"
        lines += [f"{names[0]}: {what}" if len(names) == 1 else several] if names else []
    summary = _summary(comparison) + (f"; {status}" if status else "")
    return "\n".join([*(f"  {line}" for line in [*lines, *notes]), summary])


def to_values(comparison: Comparison, status: int, notes: Iterable[str]) -> dict[str, Any]:
    """The same, for --json."""
    return {
        "status": status,
        **comparison._asdict(),
        "regressions": [
            {
                "name": change.name,
                "text": _text_of(change),
                "growths": [
                    {**growth._asdict(), "line": growth.line._asdict() if growth.line else None}
                    for growth in change.growths
                ],
                "calls": change.calls,
            }
            for change in comparison.regressions
        ],
        "less": [{"name": name, "before": before, "now": now} for name, before, now in comparison.less],
        "new": {name: figures.to_values() for name, figures in comparison.new},
        "notes": list(notes),
    }


def _summary(comparison: Comparison) -> str:
    compared = format_count(comparison.compared, "test or process", "tests and processes")
    if comparison.regressions:
        return (
            f"frugal-alloc check: {len(comparison.regressions)} of {compared} "
            f"{'takes' if len(comparison.regressions) == 1 else 'take'} more than the baseline says "
            "(if that is meant: --update)"
        )
    if not comparison.compared:
        return (
            "frugal-alloc check: nothing was compared, since nothing of the baseline has figures in this run "
            "(if tests were renamed: --update)"
        )
    changed = " (--update would write down what changed)" if comparison.less or comparison.new else ""
    return f"frugal-alloc check: {compared} compared, no more memory than the baseline says{changed}"


def _text_of(change: Change) -> str:
    # The line of the first is that of the others.
    others = [growth if growth.figure == "leaked" else growth._replace(line=None) for growth in change.growths[1:]]
    parts = [_growth(growth) for growth in (*change.growths[:1], *others)]
    if change.calls:
        calls = ", ".join(f"{kind} {before:,} -> {now:,}" for kind, (before, now) in change.calls.items())
        parts.append(f"more driver calls: {calls}")
    return "; ".join(parts)


def _growth(growth: Growth) -> str:
    return _amount(growth) + (f", held by {growth.holder}" if growth.holder else "")


def _amount(growth: Growth) -> str:
    text = f"{_WORDS[growth.figure]} {_pair(growth.before, growth.now)}"
    if growth.line is None:
        return text
    if growth.figure == "waste":
        return f"{text}, most memory asked for at {_place(growth.line)}"
    # In the unit of the pair, as long as it shows there.
    return f"{text}, +{_in(growth.line.bytes, *_unit(growth.now))} at {_place(growth.line)}"


def _pair(before: int, now: int) -> str:
    """In one unit: "1.20 -> 1.90 GiB"; in bytes where the unit would hide the difference."""
    name, unit = _unit(max(before, now))
    first, second = _in(before, name, unit), _in(now, name, unit)
    if first == second and before != now:
        first, second, name = f"{before:,}", f"{now:,}", "bytes"
    return f"{first} -> {second} {name}"


def _unit(size: int) -> tuple[str, int]:
    return next(((name, unit) for name, unit in _UNITS if size >= unit), _UNITS[-1])


def _in(size: int, name: str, unit: int) -> str:
    if name == "bytes":
        return f"{size:,}"
    text = f"{size / unit:.2f}"
    return text if text != "0.00" or not size else format_bytes(size)


def _place(line: Line) -> str:
    if not line.file:
        return line.text + (f" ({line.through})" if line.through else "")
    return code_lines.written(line.file, line.line, shorten=False)


def _figures(figures: Figures) -> str:
    if figures.peak is None:
        return "its peak is not the same in each run"
    parts = [f"peak {format_bytes(figures.peak)}"]
    if figures.lines:
        most = figures.lines[0]
        parts.append(f"{format_bytes(most.bytes)} of it at {_place(most)}")
    if figures.leaked:
        at = f" at {_place(figures.leaks[0])}" if figures.leaks else ""
        parts.append(f"leaves {format_bytes(figures.leaked)}{at}")
    return ", ".join(parts)
