"""What a comparison found, as a reviewer would say it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..._common.messages import format_bytes, format_count
from ..._program import code_lines
from .comparison import Change, Comparison, Growth
from .figures import Figures, Line
from .runs import Run

_MOST_NAMES = 10
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
_WORDS = {"peak": "peak", "gpu": "GPU memory", "waste": "allocator's waste", "leaked": "leaks"}


def source_of_status(run: Run) -> str:
    """Where the command's exit status comes from, which is not 0."""
    source = f"{format_count(len(run.failed), 'test')} that failed" if run.failed else "the command itself"
    return f"exit status {run.status} comes from {source}"


def to_text(comparison: Comparison, notes: Iterable[str], status: str = "") -> str:
    """Regressions first, a line for each test; the last says what the exit status is, too, where that is told."""
    lines = [f"{change.name}: {_change(change)}" for change in comparison.regressions]
    lines += [
        f"{name}: less than in the baseline, peak {_pair(before, now)}"
        for name, before, now in comparison.less[:_MOST_NAMES]
    ]
    if len(comparison.less) > _MOST_NAMES:
        lines.append(f"and {len(comparison.less) - _MOST_NAMES} more with a lower peak")
    lines += [f"{name}: new, {_figures(figures)}" for name, figures in comparison.new[:_MOST_NAMES]]
    if len(comparison.new) > _MOST_NAMES:
        lines.append(f"and {len(comparison.new) - _MOST_NAMES} more are new")
    lines += _listed("of the baseline, not run", comparison.missing)
    lines += _listed("took no memory of the GPU this time", comparison.idle)
    lines += _listed("not compared, since it did not pass", comparison.not_passed)
    lines += _listed(
        "peak not compared, since it differs from run to run or several threads allocate", comparison.unsteady
    )
    lines += notes
    summary = _summary(comparison) + (f"; {status}" if status else "")
    return "\n".join([*(f"  {line}" for line in lines), summary])


def to_values(comparison: Comparison, status: int, notes: Iterable[str]) -> dict[str, Any]:
    """The same, for --json."""
    return {
        "status": status,
        "regressions": [
            {
                "name": change.name,
                "text": _change(change),
                "growths": [
                    {**growth._asdict(), "line": growth.line._asdict() if growth.line else None}
                    for growth in change.growths
                ],
                "calls": {kind: list(pair) for kind, pair in change.calls.items()},
            }
            for change in comparison.regressions
        ],
        "less": [{"name": name, "before": before, "now": now} for name, before, now in comparison.less],
        "new": {name: figures.to_values() for name, figures in comparison.new},
        "missing": list(comparison.missing),
        "without_gpu_memory": list(comparison.idle),
        "not_passed": list(comparison.not_passed),
        "not_steady": list(comparison.unsteady),
        "compared": comparison.compared,
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
    changed = " (--update would write down what changed)" if comparison.less or comparison.new else ""
    return f"frugal-alloc check: {compared} compared, no more memory than the baseline says{changed}"


def _change(change: Change) -> str:
    parts = [_growth(growth) for growth in change.growths[:1]]
    # The line of the first is that of the others.
    others = [growth if growth.figure == "leaked" else growth._replace(line=None) for growth in change.growths[1:]]
    parts += map(_growth, others)
    if change.calls:
        calls = ", ".join(f"{kind} {before:,} -> {now:,}" for kind, (before, now) in change.calls.items())
        parts.append(f"more driver calls: {calls}")
    return "; ".join(parts)


def _growth(growth: Growth) -> str:
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


def _listed(what: str, names: tuple[str, ...]) -> list[str]:
    if not names:
        return []
    if len(names) == 1:
        return [f"{names[0]}: {what}"]
    rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return [f"{len(names)} {what}: {', '.join(names[:_MOST_NAMES])}{rest}"]


def relative(path: str) -> str:
    """The path as it is shortest from here."""
    shorter = os.path.relpath(path)
    return path if shorter.startswith("..") else shorter
