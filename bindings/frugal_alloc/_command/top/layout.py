"""The picture as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..._common.messages import format_bytes, format_count
from ..._report import private_pools
from ..._report.diagnoses import DIAGNOSES
from .picture import command_of

_LEAST_COMMAND = 20

NOTHING = (
    "No process runs with frugal_alloc here. Start one with `frugal-alloc run train.py`, or call frugal_alloc.enable() "
    "in a program; it is seen once it uses a GPU."
)


class Line(NamedTuple):
    """One line; `style` is rich's."""

    text: str
    style: str = ""
    indent: int = 0
    is_row: bool = False  # of the table: to be cut rather than wrapped


# The title, the cell of a process and a GPU of it, and the least width: an amount may grow by a digit before the next
# look, and a table that jumps is hard to read.
_Column = tuple[str, Callable[[dict[str, Any], dict[str, Any]], str], int]
_COLUMNS: dict[str, _Column] = {
    "pid": ("PID", lambda process, gpu: str(process["pid"]), 0),
    "gpu": ("GPU", lambda process, gpu: str(gpu["gpu"]), 0),
    "allocated": ("ALLOCATED", lambda process, gpu: format_bytes(gpu["allocated_bytes"]), 10),
    "reserved": ("RESERVED", lambda process, gpu: format_bytes(gpu["reserved_bytes"]), 10),
    "waste": ("WASTE", lambda process, gpu: format_bytes(gpu["waste_bytes"]), 10),
    "peak": ("PEAK", lambda process, gpu: format_bytes(gpu["peak_allocated_bytes"]), 10),
    "ooms": ("OOM", lambda process, gpu: f"{gpu['out_of_memory_errors']:,}", 0),
    "age": ("AGE", lambda process, gpu: format_age(process["age_seconds"]), 0),
}
# What goes first where there is no room.
_DISPENSABLE = ("age", "waste", "peak", "ooms", "reserved")
# What PyTorch has no word for.
_EXPLAINED = {
    "waste": "WASTE: reserved, not allocated",
    "peak": "PEAK: most allocated",
    "ooms": "OOM: out-of-memory errors",
}


def format_age(seconds: float) -> str:
    """59 s, 12 min, 3 h 05 min, 2 d 04 h."""
    minutes, hours, days = int(seconds) // 60, int(seconds) // 3600, int(seconds) // 86400
    if days:
        return f"{days} d {hours % 24:02} h"
    if hours:
        return f"{hours} h {minutes % 60:02} min"
    return f"{minutes} min" if minutes else f"{int(seconds)} s"


def lines(picture: dict[str, Any], width: int | None = None, is_low: bool = False) -> Iterator[Line]:
    """What is to be shown; on a screen of so many columns without those of the table for which there is no room, and on
    one that is too low with a line for each GPU."""
    if not picture["processes"]:
        yield Line(NOTHING)
    else:
        for gpu in picture["gpus"]:
            title, *sums = _gpu(gpu)
            yield from [title._replace(is_row=True)] if is_low else [title, *sums]
        yield Line("")
        yield from _table(picture["processes"], width)
    if count := picture["of_other_users"]:
        others = format_count(count, "process of another user is", "processes of other users are")
        yield Line(f"{others} not shown: only the user itself and root may ask.", "dim")
    if picture["left_out"]:
        yield Line(f"{picture['left_out']:,} more processes were not asked.", "dim")


def _gpu(gpu: dict[str, Any]) -> Iterator[Line]:
    title = f"GPU {gpu['gpu']}  {gpu['name'] or 'unnamed'}"
    if gpu["simulated"] and "simulated" not in gpu["name"].lower():
        title += " (simulated)"
    if gpu["total_bytes"] is not None and gpu["free_bytes"] is not None:
        title += f": {format_bytes(gpu['free_bytes'])} free of {format_bytes(gpu['total_bytes'])}"
    yield Line(title, "bold")
    sums = (f"{name} {format_bytes(gpu[f'{name}_bytes'])}" for name in ("allocated", "reserved", "waste"))
    count = format_count(len(gpu["processes"]), "process", "processes")
    yield Line(f"{', '.join(sums)}, in {count}", indent=2)


def _table(processes: list[dict[str, Any]], width: int | None) -> Iterator[Line]:
    answered = [process for process in processes if process["problem"] is None]
    rows = [(process, gpu) for process in answered for gpu in process["gpus"]]
    widths = {
        name: max([least, len(title), *(len(cell(*row)) for row in rows)])
        for name, (title, cell, least) in _COLUMNS.items()
    }
    for name in _DISPENSABLE:
        if width is None or sum(widths.values()) + 2 * len(widths) + _LEAST_COMMAND <= width:
            break
        del widths[name]
    room = None if width is None else width - sum(widths.values()) - 2 * len(widths)
    titles = [_COLUMNS[name][0].rjust(size) for name, size in widths.items()]
    yield Line("  ".join([*titles, "COMMAND"]), "dim", is_row=True)
    for process in processes:
        if process["problem"] is not None:
            yield Line(f"{process['pid']:>{widths['pid']}}  {process['problem']}", "yellow")
            continue
        command = _shortened(command_of(process), room)
        for gpu in process["gpus"]:
            cells = [_COLUMNS[name][1](process, gpu).rjust(size) for name, size in widths.items()]
            yield Line("  ".join([*cells, command]).rstrip(), is_row=True)
            command = ""
        yield from _notes(process)
    if explained := [text for name, text in _EXPLAINED.items() if name in widths]:
        yield Line("; ".join(explained), "dim")


def _shortened(command: str, room: int | None) -> str:
    """Without its middle where that is too long: what tells programs of one kind apart comes last as often as first."""
    if room is None or len(command) <= room or room < _LEAST_COMMAND // 2:
        return command
    first = (room - 1) // 2
    return f"{command[:first]}…{command[first + 1 - room :]}"


def _notes(process: dict[str, Any]) -> Iterator[Line]:
    for verdict in process["verdicts"]:
        yield Line(verdict["text"], "red" if verdict["kind"] in ("leak", "growing", "outside") else "yellow", indent=4)
    for gpu in process["gpus"]:
        if gpu["out_of_memory_errors"]:
            count = format_count(gpu["out_of_memory_errors"], "out-of-memory error")
            latest = gpu["last_out_of_memory"]
            verdict = f"; the latest: {DIAGNOSES[latest].short}" if latest else ""
            yield Line(f"{count} on GPU {gpu['gpu']}{verdict}", "red", indent=4)
    for gpu in process["gpus"]:
        if asleep := gpu.get("asleep_bytes"):
            text = f"GPU {gpu['gpu']}: {format_bytes(asleep)} of what is allocated is asleep"
            yield Line(text, "dim", indent=4)
        pools = [pool for pool in process.get("pools", ()) if pool["gpu"] == gpu["gpu"]]
        for row in private_pools.table(pools, lambda pool: pool["line"]):
            yield Line(f"GPU {gpu['gpu']}: {row.lstrip()}", "dim", indent=4)
    if not process["tracking"]:
        yield Line("not tracked: nothing is known of leaks (track:off)", "dim", indent=4)
