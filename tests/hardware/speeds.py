"""What was measured of each program: kept in a file to which a later run adds, shown as rows, and explained."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from frugal_alloc._command.doctor.probe import NOT_SHOWN
from frugal_alloc._common import whole_files
from frugal_alloc._common.messages import Refused

from bench.training import ALLOCATORS, EXPANDABLE, NATIVE, OURS, UNTRACKED

from . import windows

MEASURED, ROWS = "throughput.json", "rows.txt"
_OTHERS = (NATIVE, EXPANDABLE)
_GIB = 1 << 30
_HEAD = (
    f"{'':18}{'ms a step':>10}{'quartiles':>18}{'host':>9}{'GPU':>9}{'held GiB':>10}{'driver ms':>11}{'calls':>8}"
    f"{'retries':>9}"
)
#: Of stacks and kernels whose time differs, so many are named in the table.
_NAMED = 3
_WIDTH = 110


@dataclasses.dataclass
class Cell:
    """A program with so much memory."""

    program: str
    title: str
    capacity: str
    #: The most that each may hold; None: all.
    capacity_bytes: int | None = None
    #: Of a window.
    steps: int = 0
    #: What each allocator's window had, by allocator.
    rounds: list[dict[str, dict[str, Any]]] = dataclasses.field(default_factory=list)
    #: Why an allocator has no more windows.
    problems: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Why there are none at all.
    left_out: str = ""
    #: Whose windows did not come to agree before they were measured.
    not_warm: list[str] = dataclasses.field(default_factory=list)
    why: list[str] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.title}, {self.capacity}"

    def values(self, allocator: str, figure: str) -> list[float]:
        return [found[allocator][figure] for found in self.rounds if allocator in found]

    def verdict(self, others: Sequence[str] = _OTHERS) -> windows.Verdict | None:
        milliseconds = [{name: found["ms"] for name, found in each.items()} for each in self.rounds]
        return windows.verdict(milliseconds, OURS, others)


# --- The file.


def write(cells: Sequence[Cell], folder: Path, simulated: bool) -> None:
    """Whoever reads finds the old file or the new one. Of the simulated GPU there are no times."""
    known = [dataclasses.replace(cell, rounds=[]) if simulated else cell for cell in cells]
    measured = json.dumps([dataclasses.asdict(cell) for cell in known], indent=1)
    whole_files.write(str(folder / MEASURED), measured.encode())
    whole_files.write(str(folder / ROWS), text(cells, simulated).encode())


def read(folder: Path) -> dict[tuple[str, str], Cell]:
    """What an earlier run into the folder has measured, by program and capacity."""
    cells = [Cell(**entry) for entry in json.loads((folder / MEASURED).read_text())]
    return {(cell.program, cell.capacity): cell for cell in cells}


def windows_of(cells: Iterable[Cell]) -> int:
    return sum(len(found) for cell in cells for found in cell.rounds)


def measured_on(found: dict[str, Any], commit: str) -> dict[str, Any]:
    return {"GPU": found.get("gpu"), "torch": found["software"]["torch"], "commit": commit}


def earlier_cells(folder: Path, where: dict[str, str]) -> dict[tuple[str, str], Cell]:
    """What an earlier run has measured, by program and capacity.

    Raises:
        Refused: there is nothing, or it is of something else.
    """
    try:
        found = json.loads((folder / "where.json").read_text())
        cells = read(folder)
    except (OSError, ValueError, KeyError):
        raise Refused(f"{folder} has nothing that throughput measured; run without --add") from None
    for name, here in where.items():
        if found.get(name) != here:
            raise Refused(f"{folder} is of {name} {found.get(name)}, and this is {here}; run without --add")
    return cells


# --- Rows.


def text(cells: Sequence[Cell], simulated: bool) -> str:
    return "".join(f"{line}\n" for line in [_HEAD, *(line for cell in cells for line in _rows(cell, simulated))])


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def said(verdict: windows.Verdict) -> str:
    low, median, high = verdict.ratio
    return f"{verdict.said}: {median:.3f} ({low:.3f} to {high:.3f}) of {verdict.faster}'s speed"


def _rows(cell: Cell, simulated: bool) -> Iterator[str]:
    verdict = None if simulated else cell.verdict()
    heading = cell.left_out or (NOT_SHOWN if simulated else said(verdict) if verdict else "nothing to compare")
    counted = f"; {len(cell.rounds)} windows of {cell.steps} steps" if verdict else ""
    limited = f"; {cell.capacity_bytes / _GIB:.2f} GiB" if cell.capacity_bytes and not simulated else ""
    unsettled = f"; not warm at first: {', '.join(cell.not_warm)}" if cell.not_warm and not simulated else ""
    yield f"{cell.name}: {heading}{counted}{limited}{unsettled}"
    for allocator in () if cell.left_out else ALLOCATORS:
        problem = cell.problems.get(allocator, "")
        if simulated or not (milliseconds := cell.values(allocator, "ms")):
            yield f"  {allocator:16}{problem or (NOT_SHOWN if simulated else 'not reached'):>10}"[:_WIDTH]
            continue
        low, middle, high = quartiles(milliseconds)
        host, gpu, driver, calls = (
            statistics.median(cell.values(allocator, figure))
            for figure in ("host_ms", "gpu_ms", "driver_ms", "driver_calls")
        )
        held, retries = (max(cell.values(allocator, figure)) for figure in ("reserved_bytes", "retries"))
        spread = f"{low:.2f} to {high:.2f}"
        own = f"{driver:11.3f}" if allocator in (OURS, UNTRACKED) else f"{'':11}"
        yield (
            f"  {allocator:16}{middle:10.2f}{spread:>18}{host:9.2f}{gpu:9.2f}{held / _GIB:10.2f}{own}{calls:8.2f}"
            f"{retries:9.0f}  {problem}"
        ).rstrip()
    yield from (f"    {line}"[:_WIDTH] for line in cell.why)


# --- Why ours is slower.


def explain(cell: Cell, other: str, profiles: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What a profile of ours and one of the other's show, in ten lines at most."""
    ours, theirs = profiles[OURS], profiles[other]
    if untracked := cell.verdict([UNTRACKED]):
        tracking = [f"tracking: {untracked.ratio.median:.3f} of the speed of {UNTRACKED}"]
    else:
        tracking = []
    done = ", ".join(f"{value:.3g} {name}" for name, value in ours["done"].items() if value)
    garbage = [f"{found['garbage']['collections']} in {found['garbage']['ms']:.2f} ms" for found in (ours, theirs)]
    lines = [
        f"a profile of {ours['steps']} steps beside {other}'s; differences in ms a step",
        *tracking,
        f"of ours in a step: {done}",
        f"garbage was collected {garbage[0]} a step, with {other} {garbage[1]}",
    ]
    for what in ("stacks", "kernels", "calls"):
        lines += _differing(what, ours[what], theirs[what])
    lines += [f"kernels are not known: {ours['untraced']}"] if "untraced" in ours else []
    return lines


def _differing(what: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """A line with those that take ours the most time more."""
    first = lambda found, name: _milliseconds(found.get(name, 0.0))  # noqa: E731
    more = {name: first(ours, name) - first(theirs, name) for name in {*ours, *theirs}}
    longest = sorted(more, key=lambda name: (-more[name], name))[:_NAMED]
    named = "; ".join(f"{more[name]:+.3f} {name.split(' < ')[0][: _WIDTH // _NAMED]}" for name in longest)
    return [f"{what}: {sum(more.values()):+.3f}: {named}"] if named else []


def _milliseconds(found: Any) -> float:
    return found if isinstance(found, float) else found[0]
