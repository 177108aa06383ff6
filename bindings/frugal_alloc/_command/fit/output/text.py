"""A verdict for a terminal: first whether it fits, then what takes the memory. At most 100 columns wide."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from ...._common.messages import format_bytes, format_count
from ..verdict import WASTE, Verdict
from . import wording
from .peaks_table import PeaksTable, RankGroup, rank_groups

WIDTH = 100
_MOST_LINES = 10
# All that differ are on the page, and in the JSON form.
_MOST_TABLES = 4
_BOLD, _RED, _GREEN, _YELLOW = "1", "31", "32", "33"
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def write(verdicts: Sequence[Verdict], out: TextIO) -> None:
    out.write(render(verdicts, colour=out.isatty() and "NO_COLOR" not in os.environ))


def render(verdicts: Sequence[Verdict], colour: bool = False) -> str:
    """
    Args:
        verdicts: Of one program, each with another allocator; all is told of the first.
        colour: Whether to write a terminal's escape sequences.
    """
    first, *others = (wording.of_terminal_and_page(verdict) for verdict in verdicts)
    lines = [*_headline(first, colour), ""]
    if others:
        lines += [*_allocators([first, *others]), ""]
    for section in (_tables(first), _peak_lines(first), _changes(first), _tried(first), _reservations(first)):
        found = list(section)
        lines += [*found, ""] if found else []
    for name, fact in wording.facts(first):
        lines += _wrapped(f"{name}: {fact}")
    return "\n".join(lines).rstrip() + "\n"


def _headline(verdict: Verdict, colour: bool) -> Iterator[str]:
    code = {True: _GREEN, False: _RED, None: _YELLOW}[verdict.fits]
    # One line, however long the terminal's are: scripts read the first line.
    said = wording.headline(verdict)
    yield f"\x1b[{_BOLD};{code}m{said}\x1b[0m" if colour else said
    if verdict.error:
        yield from _wrapped(verdict.error, "  ")


def _allocators(verdicts: Sequence[Verdict]) -> Iterator[str]:
    rows = [("allocator", "fits", "most in use", "waste at the peak", "needs")]
    for verdict in verdicts:
        worst = verdict.worst
        fits = {True: "yes", False: "no", None: "not known"}[verdict.fits]
        used = waste = "-"
        if worst is not None:
            used, waste = format_bytes(worst.most_used_bytes), format_bytes(worst.peak.components.get(WASTE, 0))
        needs = "-" if verdict.needs_bytes is None else format_bytes(verdict.needs_bytes)
        rows.append((wording.ALLOCATORS.get(verdict.allocator, verdict.allocator), fits, used, waste, needs))
    yield from _columns(rows, texts=2)


def _tables(verdict: Verdict) -> Iterator[str]:
    groups = rank_groups(verdict)
    for number, group in enumerate(groups[:_MOST_TABLES]):
        if number:
            yield ""
        yield from _table(group, several=len(verdict.ranks) > 1)
    for group in groups[_MOST_TABLES:]:
        peak = group.first.peak
        yield from _wrapped(f"{group.name}: {format_bytes(peak.used_bytes)}, {wording.moment(peak)}")


def _table(group: RankGroup, several: bool) -> Iterator[str]:
    table = PeaksTable.of(group.first)
    most = max((moment.used_bytes for moment in table.moments), default=0)
    unit, name = next(((size, name) for size, name in _UNITS if most >= size), _UNITS[-1])
    of_ranks = f" ({group.name})" if several else ""
    yield f"In use when each phase needed most, in {name}{of_ranks}"
    titles = [f"{moment.phase}{' *' if n == table.peak else ''}" for n, moment in enumerate(table.moments)]
    rows = [("", *titles)]
    rows += [(component, *(_figure(size, unit) for size in sizes)) for component, sizes in table.rows]
    rows.append(("all", *(_figure(moment.used_bytes, unit) for moment in table.moments)))
    rows.append(("at step", *(str(moment.step) for moment in table.moments)))
    yield from _columns(rows, texts=1, indent="  ")
    yield "  * the peak"


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
    for one in verdict.tried:
        yield f"  {one.value}: {wording.outcome(one)}"


def _reservations(verdict: Verdict) -> Iterator[str]:
    """What the answer rests on that is not known for certain. Silence would be no answer."""
    if verdict.fits is None:
        return
    for title, sentences in (("Guessed", verdict.guesses), ("Not modelled", verdict.not_modelled)):
        if not sentences:
            yield f"{title}: nothing"
        for sentence in sentences:
            yield from _wrapped(f"{title}: {sentence}", "", "  ")


def _columns(rows: Iterable[Sequence[str]], texts: int, indent: str = "") -> Iterator[str]:
    """The first `texts` columns are words, the others figures."""
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(widths[number]) if number < texts else cell.rjust(widths[number])
            for number, cell in enumerate(row)
        ]
        yield (indent + "  ".join(cells)).rstrip()


def _wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
