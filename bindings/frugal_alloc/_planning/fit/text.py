"""A verdict for a terminal: first whether it fits, then what takes the memory. At most 100 columns wide."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import TextIO

from ..._common.messages import format_bytes, format_columns, format_count
from . import wording
from .verdict import RankPeaks, Verdict

WIDTH = 100
_MOST_LINES = 10
# All that differ are on the page, and in the JSON form.
_MOST_TABLES = 4
_BOLD = "1"
_COLOURS = {True: "32", False: "31", None: "33"}  # green, red, yellow
_EXPLAINED = "; needed: the rows above; waste: reserved, not asked for; all: both"
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def write(verdicts: Sequence[Verdict], out: TextIO) -> None:
    out.write(render(verdicts, colour=out.isatty() and "NO_COLOR" not in os.environ))


def render(verdicts: Sequence[Verdict], colour: bool = False) -> str:
    """
    Args:
        verdicts: Of one program, each with another allocator; all is told of the first.
        colour: Whether to write a terminal's escape sequences.
    """
    cleaned = [wording.of_terminal_and_page(verdict) for verdict in verdicts]
    first = cleaned[0]
    lines = [*_headline(first, colour), ""]
    if len(cleaned) > 1:
        lines += [*format_columns(wording.allocator_rows(cleaned), texts=2), wording.ALLOCATOR_ROWS_EXPLAINED, ""]
    for section in (_tables(first), _peak_lines(first), _changes(first), _tried(first), _reservations(first)):
        shown = list(section)
        lines += [*shown, ""] if shown else []
    for name, fact in wording.facts(first):
        lines += _wrapped(f"{name}: {fact}")
    return "\n".join(lines).rstrip() + "\n"


def _headline(verdict: Verdict, colour: bool) -> Iterator[str]:
    # One line, however long the terminal's are: scripts read the first line.
    said = wording.headline(verdict)
    yield f"\x1b[{_BOLD};{_COLOURS[verdict.is_good]}m{said}\x1b[0m" if colour else said
    if verdict.error:
        yield from _wrapped(verdict.error, "  ")


def _tables(verdict: Verdict) -> Iterator[str]:
    groups = wording.rank_groups(verdict)
    for number, (name, rank) in enumerate(groups[:_MOST_TABLES]):
        if number:
            yield ""
        yield from _table(rank, verdict.unit, f" ({name})" if len(verdict.ranks) > 1 else "")
    for name, rank in groups[_MOST_TABLES:]:
        yield from _wrapped(f"{name}: {format_bytes(rank.peak.used_bytes)}, {wording.moment(rank.peak, verdict.unit)}")


def _table(rank: RankPeaks, unit_of_time: str, of_ranks: str) -> Iterator[str]:
    most = max((moment.used_bytes for moment in rank.phases), default=0)
    unit, name = next(((size, name) for size, name in _UNITS if most >= size), _UNITS[-1])
    yield f"In use when each phase needed most, in {name}{of_ranks}"
    rows = [("", *(f"{moment.phase}{' *' if moment.phase == rank.peak.phase else ''}" for moment in rank.phases))]
    rows += [(name, *(_figure(size, unit) for size in sizes)) for name, sizes in wording.phase_rows(rank)]
    rows.append((f"at {unit_of_time}", *(str(moment.step) for moment in rank.phases)))
    yield from (f"  {row}" for row in format_columns(rows, texts=1))
    yield f"  * the peak{_EXPLAINED if any(row[0] == wording.NEEDED for row in rows) else ''}"


def _figure(size: int, unit: int) -> str:
    if not size:
        return "-"
    return f"{size / unit:.2f}" if abs(size) * 200 >= unit else "< 0.01"


def _peak_lines(verdict: Verdict) -> Iterator[str]:
    worst = verdict.worst
    if worst is None or not worst.lines:
        return
    yield "At the peak, most is held by"
    for line in worst.lines[:_MOST_LINES]:
        blocks = format_count(line.blocks, "block")
        text = f"  {format_bytes(line.bytes):>11}  {line.component:<15}  "
        yield from _wrapped(f"{wording.place(line.where, function=True)} ({blocks})", text, " " * len(text))
    rest = worst.lines[_MOST_LINES:]
    if rest:
        held = sum(line.bytes for line in rest)
        yield f"  {format_bytes(held):>11}  {format_count(len(rest), 'more line')}"


def _changes(verdict: Verdict) -> Iterator[str]:
    if verdict.changes:
        yield "What to change first"
    for number, change in enumerate(verdict.changes, 1):
        gain = f" ({wording.gain(change)})" if change.bytes else ""
        yield from _wrapped(f"{change.text}{gain}", f"  {number}. ", "     ")


def _tried(verdict: Verdict) -> Iterator[str]:
    if verdict.tried:
        yield f"Tried, of {verdict.searched}"
    for tried in verdict.tried:
        # What was in use when memory ran out says nothing of what is needed.
        outcome = f"fits, {format_bytes(tried.used_bytes)}" if tried.fits else "does not fit"
        yield f"  {tried.value}: {wording.why_neither(tried) if tried.fits is None else outcome}"


def _reservations(verdict: Verdict) -> Iterator[str]:
    for title, sentences in wording.reservations(verdict):
        for sentence in sentences or ("nothing",):
            yield from _wrapped(f"{title}: {sentence}", "", "  ")


def _wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
