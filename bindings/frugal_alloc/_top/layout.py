"""The picture as lines of text for a terminal of any width."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

from .._amounts import format_bytes, format_count
from .._report.headline import OOM_NAMES
from .picture import command_of

#: Where nothing says how wide the reader's screen is.
DEFAULT_WIDTH = 160
_LEAST_WIDTH = 30
_LEAST_COMMAND = 20
# Below this, a command has a line of its own.
_NARROW = 60

NOTHING = (
    "No process runs with frugal_alloc here. Start one with `frugal-alloc run train.py`, or call frugal_alloc.enable() "
    "in a program; it is seen once it uses a GPU."
)


class Line(NamedTuple):
    """One line, and how it is meant: "title", "head", "plain", "bad", "warning" or "dim"."""

    text: str
    style: str = "plain"


class _Column(NamedTuple):
    title: str
    cell: Callable[[dict[str, Any], dict[str, Any]], str]  # of a process and a GPU of it


_COLUMNS = {
    "pid": _Column("PID", lambda process, gpu: str(process["pid"])),
    "gpu": _Column("GPU", lambda process, gpu: str(gpu["gpu"])),
    "in_use": _Column("IN USE", lambda process, gpu: format_bytes(gpu["in_use_bytes"])),
    "held": _Column("HELD", lambda process, gpu: format_bytes(gpu["held_bytes"])),
    "waste": _Column("WASTE", lambda process, gpu: format_bytes(gpu["waste_bytes"])),
    "peak": _Column("PEAK", lambda process, gpu: format_bytes(gpu["peak_in_use_bytes"])),
    "stitches": _Column("STITCHES", lambda process, gpu: f"{gpu['stitches']:,}"),
    "ooms": _Column("OOM", lambda process, gpu: f"{gpu['out_of_memory_errors']:,}"),
    "age": _Column("AGE", lambda process, gpu: format_age(process["age_seconds"])),
}
# What goes first where there is no room.
_DISPENSABLE = ("stitches", "age", "ooms", "peak")


def format_age(seconds: float) -> str:
    """59 s, 12 min, 3 h 05 min, 2 d 04 h."""
    minutes, hours, days = int(seconds) // 60, int(seconds) // 3600, int(seconds) // 86400
    if days:
        return f"{days} d {hours % 24:02} h"
    if hours:
        return f"{hours} h {minutes % 60:02} min"
    return f"{minutes} min" if minutes else f"{int(seconds)} s"


def lines(picture: dict[str, Any], width: int = DEFAULT_WIDTH) -> list[Line]:
    """What is to be shown, no line wider than `width`."""
    width = max(width, _LEAST_WIDTH)
    written: list[Line] = []
    if not picture["processes"]:
        written += _wrapped(NOTHING, width)
    else:
        for gpu in picture["gpus"]:
            written += _gpu(gpu, width)
        written.append(Line(""))
        written += _table(picture["processes"], width)
    if count := picture["of_other_users"]:
        others = format_count(count, "process of another user is", "processes of other users are")
        written += _wrapped(f"{others} not shown: only the user itself and root may ask.", width, "dim")
    if picture["left_out"]:
        written += _wrapped(f"{picture['left_out']:,} more processes were not asked.", width, "dim")
    return written


def _gpu(gpu: dict[str, Any], width: int) -> list[Line]:
    title = f"GPU {gpu['gpu']}  {gpu['name'] or 'unnamed'}"
    if gpu["simulated"] and "simulated" not in gpu["name"].lower():
        title += " (simulated)"
    if gpu["total_bytes"] is not None and gpu["free_bytes"] is not None:
        title += f": {format_bytes(gpu['free_bytes'])} free of {format_bytes(gpu['total_bytes'])}"
    sums = (
        f"in use {format_bytes(gpu['in_use_bytes'])}, held {format_bytes(gpu['held_bytes'])}, "
        f"waste {format_bytes(gpu['waste_bytes'])}, in {format_count(len(gpu['processes']), 'process', 'processes')}"
    )
    return [*_wrapped(title, width, "title"), *_wrapped(sums, width, indent="  ")]


def _table(processes: list[dict[str, Any]], width: int) -> list[Line]:
    answered = [process for process in processes if process["problem"] is None]
    rows = [(process, gpu) for process in answered for gpu in process["gpus"]]
    names = list(_COLUMNS)
    is_narrow = width < _NARROW
    has_several = any(len(process["gpus"]) > 1 for process in answered)
    for name in (*_DISPENSABLE, *(("held", "gpu") if has_several else ("gpu", "held"))):
        if _width(names, rows) + (0 if is_narrow else 2 + _LEAST_COMMAND) <= width:
            break
        names.remove(name)
    widths = [_column_width(name, rows) for name in names]
    written = [_row([_COLUMNS[name].title for name in names], widths, "" if is_narrow else "COMMAND", width, "head")]
    for process in processes:
        if process["problem"] is not None:
            pid = str(process["pid"]).rjust(widths[0])
            written += _wrapped(f"{pid}  {process['problem']}", width, "warning", hang="    ")
            continue
        written += _process(process, names, widths, width, is_narrow)
    return written


def _process(process: dict[str, Any], names: list[str], widths: list[int], width: int, is_narrow: bool) -> list[Line]:
    written = []
    for number, gpu in enumerate(process["gpus"]):
        cells = [_COLUMNS[name].cell(process, gpu) for name in names]
        command = command_of(process) if number == 0 and not is_narrow else ""
        written.append(_row(cells, widths, command, width))
    if is_narrow:
        written.append(Line(_fitted(f"  {command_of(process)}", width), "dim"))
    for verdict in process["verdicts"]:
        sure = verdict["kind"] in ("leak", "growing", "outside")
        written += _wrapped(verdict["text"], width, "bad" if sure else "warning", "    ", "  ")
    for gpu in process["gpus"]:
        if gpu["out_of_memory_errors"]:
            count = format_count(gpu["out_of_memory_errors"], "out-of-memory error")
            latest = gpu["last_out_of_memory"]
            verdict = f"; the latest: {OOM_NAMES[latest]}" if latest else ""
            written += _wrapped(f"{count} on GPU {gpu['gpu']}{verdict}", width, "bad", "    ", "  ")
    if not process["tracking"]:
        written.append(Line(_fitted("    not tracked: nothing is known of leaks (track:off)", width), "dim"))
    return written


def _column_width(name: str, rows: list[tuple[dict[str, Any], dict[str, Any]]]) -> int:
    column = _COLUMNS[name]
    # An amount may grow by a digit before the next look; a table that jumps is hard to read.
    least = 10 if name in ("in_use", "held", "waste", "peak") else len(column.title)
    return max([least, *(len(column.cell(process, gpu)) for process, gpu in rows)])


def _width(names: list[str], rows: list[tuple[dict[str, Any], dict[str, Any]]]) -> int:
    return sum(_column_width(name, rows) for name in names) + 2 * (len(names) - 1)


def _row(cells: list[str], widths: list[int], command: str, width: int, style: str = "plain") -> Line:
    row = "  ".join(cell.rjust(size) for cell, size in zip(cells, widths, strict=True))
    return Line(_fitted(f"{row}  {command}".rstrip(), width), style)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _fitted(text: str, width: int) -> str:
    """The text, cut to so many cells of a terminal."""
    if sum(map(_cells, text)) <= width:
        return text
    taken, used = "", 0
    for character in text:
        used += _cells(character)
        if used > width - 3:
            break
        taken += character
    return taken + "..."


def _wrapped(text: str, width: int, style: str = "plain", indent: str = "", hang: str = "") -> list[Line]:
    """Lines of whole words, those after the first indented by `hang` more."""
    written: list[str] = []
    line = indent
    for word in text.split(" "):
        if line.strip() and sum(map(_cells, line)) + 1 + sum(map(_cells, word)) > width:
            written.append(line)
            line = indent + hang
        line += word if not line.strip() else f" {word}"
    written.append(line)
    return [Line(_fitted(line, width), style) for line in written]
