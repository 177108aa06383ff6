"""What a program of programs/ is, by the header at its top, and in what its report falls short of that.

A header is comments before the first line of code:

    # LEAK: every batch's predictions, with their graphs
    # HOLDER: predictions
    # REMEDY: .detach() | .cpu()

LEAK, HEALTHY or MEANT comes first, with a line about the program. MEANT is growth that the program is written for. A
leak's lines end with "# leak": each that makes what stays, as far as it is material; "LINE: not known" where no line
may be named. HOLDER has the names of the program's by which the holder may be called, or "not known". REMEDY has the
words of advice that mends it: some of them are enough. MODULE names another file of the program's, with lines that
leak. VALUES: cpu is for a program that needs kernels to be computed.

Some headers say more, word by word as the report has it:

    # HELD: list 'tasks'
    # THROUGH: variable 'inner' of save()
    # VERDICT: leak, outputs_kept
    # EPOCHS: data_loader, 11 ended, 36 steps
    # RATE: 18.00 MiB
    # NOTE: is taken for meant
    # UNSAID: is harmless

HELD, in HOLDER's place, is the only holder, and holds all of the leak; THROUGH is the way from there to the tensors. A
line that ends with "# holder" is where the program makes the holder. VERDICT has the kind and the pattern. LIKE has, of
a program that does not leak, the patterns of those that it looks like. EPOCHS has how their ends are found, how many
there were, and the steps; RATE what each of them adds; NOTE has words of a note, and UNSAID words that no note has. An
innocent program that says one of these gets no verdict, be it material or not.

Where each line that leaks has a holder of its own, the header names none, and the line ends with "# leak: list 'tasks'"
or "# leak: list 'tasks' through variable 'inner' of save()", which are the words of HELD and THROUGH, or with "# leak:
not known". A "*" of THROUGH stands for any words.
"""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path
from typing import Any, NamedTuple

PROGRAMS = Path(__file__).parent / "programs"
_LEAKS = re.compile(r"# leak(?:: (?P<what>.+?)(?: through (?P<through>.+))?)?$")
_MAKES_THE_HOLDER = re.compile(r"# holder$")
NOT_KNOWN = "not known"
# Verdicts that tell a user of something to mend.
ACCUSING = ("leak", "suspect", "growing", "cycle", "outside")
Place = tuple[str, int | None]  # the name of a file, and the line
Held = tuple[str, str]  # by what, and through what
LEAST_OF_A_LINE = 0.95
NO_LINE = frozenset({("", None)})
_FIELD = re.compile(r"# ([A-Z]+): (.+)")
# What a header of each kind may have besides.
_MORE_OF_ALL = {"MODULE", "VALUES", "EPOCHS", "NOTE", "UNSAID"}
_MORE_OF_LEAKS = _MORE_OF_ALL | {"LINE", "THROUGH", "VERDICT", "RATE"}
_MORE_OF_INNOCENTS = _MORE_OF_ALL | {"LIKE"}


class BadHeader(ValueError):
    """A program's header does not say what it has to."""


class Claim(NamedTuple):
    """What is so of a program."""

    name: str
    kind: str  # LEAK, HEALTHY or MEANT
    about: str
    lines: frozenset[Place]  # that leak
    holders: tuple[str, ...]
    remedies: tuple[str, ...]
    values: str
    held: Held | None = None
    holder_lines: frozenset[Place] = frozenset()
    held_by_line: tuple[tuple[Place, Held], ...] = ()
    verdict: str = ""
    epochs: str = ""
    note: str = ""
    unsaid: str = ""
    likes: tuple[str, ...] = ()
    rate: str = ""


def all_names() -> list[str]:
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


def read(name: str, file: Path | None = None) -> Claim:
    """Of a program, or of another form of it in a file of its own. Raises BadHeader."""
    file = file or PROGRAMS / f"{name}.py"
    fields = _fields(file.read_text())
    kind, about = next(iter(fields.items()), ("", ""))
    files = [file, *(PROGRAMS / module for module in _alternatives(fields.get("MODULE", "")))]
    marks = _marked(files, _LEAKS)
    held_by_line = tuple(
        (place, (mark["what"], mark["through"] or "")) for place, mark in marks.items() if mark["what"]
    )
    if not _is_complete(kind, fields, len(marks), len(held_by_line)):
        raise BadHeader(f"{name}.py: its header has {', '.join(fields) or 'nothing'}, and {len(marks)} lines leak")
    return Claim(
        name,
        kind,
        about,
        NO_LINE if "LINE" in fields else frozenset(marks),
        *(_alternatives(fields.get(key, "")) for key in ("HOLDER", "REMEDY")),
        fields.get("VALUES", "none"),
        (fields["HELD"], fields.get("THROUGH", "")) if "HELD" in fields else None,
        frozenset(_marked(files, _MAKES_THE_HOLDER)),
        held_by_line,
        *(fields.get(key, "") for key in ("VERDICT", "EPOCHS", "NOTE", "UNSAID")),
        _alternatives(fields.get("LIKE", "")),
        fields.get("RATE", ""),
    )


def shortcomings(claim: Claim, document: dict[str, Any]) -> list[str]:
    """In what a report is not as its program is. Only material verdicts count, but for innocents that say more."""
    all_count = claim.kind != "LEAK" and bool(claim.likes or claim.epochs or claim.note)
    rows = document["verdicts"]
    verdicts = [row for row in rows if all_count or (row["material"] and row["kind"] in ACCUSING)]
    short = [f"accuses {_place(verdict)}" for verdict in verdicts if _line(verdict) not in claim.lines]
    epochs = "{found_by}, {ended} ended, {steps} steps".format(**document["epochs"])
    if claim.epochs not in ("", epochs):
        short.append(f"epochs: {epochs}")
    if not any(claim.note in note for note in ["", *document["notes"]]):
        short.append("the note is missing")
    if claim.unsaid and any(claim.unsaid in note for note in document["notes"]):
        short.append(f"says that something {claim.unsaid}")
    if claim.kind != "LEAK":
        return short
    # A reader goes by what comes first.
    if not verdicts or _line(verdicts[0]) not in claim.lines:
        return [*short, "the leak does not come first"]
    if not claim.held_by_line:
        return short + _of_leak(claim, verdicts[0], claim.held)
    told = {_line(verdict): verdict for verdict in verdicts}
    for place, held in claim.held_by_line:
        short += _of_leak(claim, told[place], held) if place in told else [f"the leak of line {place[1]} is missing"]
    return short


def _of_leak(claim: Claim, told: dict[str, Any], held: Held | None) -> list[str]:
    """In what a leak's verdict is not as the leak is."""
    short = []
    verdict = f"{told['kind']}, {told['pattern']}"
    if claim.verdict not in ("", verdict):
        short.append(f"verdict: {verdict}")
    rate = f"{told['bytes_per_epoch'] / (1 << 20):.2f} MiB" if claim.rate else ""
    if rate != claim.rate:
        short.append(f"rate: {rate}")
    if not _is_holder_right(claim, told["held_by"], held):
        short.append(f"holder: {_place(told)} by {' and '.join(map(_in_words, told['held_by'])) or NOT_KNOWN}")
    # Where no pattern is known, there is no remedy.
    is_known = bool(claim.verdict) or told["pattern"] != "unknown"
    if is_known and not any(words in told["advice"] for words in claim.remedies):
        short.append(f"remedy: {_place(told)}: {told['advice']}")
    return short


def _is_complete(kind: str, fields: dict[str, str], leaking: int, held_by_line: int) -> bool:
    """Whether a header has all that its kind needs, and nothing that this does not have."""
    if kind != "LEAK":
        return kind in ("HEALTHY", "MEANT") and not leaking and {kind} <= set(fields) <= {kind} | _MORE_OF_INNOCENTS
    if bool(leaking) == (fields.get("LINE") == NOT_KNOWN) or held_by_line not in (0, leaking):
        return False
    holder = set() if held_by_line else {"HELD"} if "HELD" in fields else {"HOLDER"}
    needed = {"LEAK", "REMEDY"} | holder
    is_asked = "THROUGH" not in fields or "HELD" in holder
    return is_asked and needed <= set(fields) <= needed | _MORE_OF_LEAKS


def _fields(source: str) -> dict[str, str]:
    fields = {}
    for line in source.splitlines():
        if not line.startswith("#"):
            break
        if (field := _FIELD.fullmatch(line)) is not None:
            fields[field[1]] = field[2]
    return fields


def _alternatives(text: str) -> tuple[str, ...]:
    return tuple(words.strip() for words in text.split("|") if words.strip())


def _marked(files: list[Path], mark: re.Pattern[str]) -> dict[Place, re.Match[str]]:
    lines = [(file.name, *line) for file in files for line in enumerate(file.read_text().splitlines(), 1)]
    return {(file, number): found for file, number, line in lines if (found := mark.search(line)) is not None}


def _line(place: dict[str, Any]) -> tuple[str, int | None]:
    return Path(place["file"] or "").name, place["line"]


def _is_holder_right(claim: Claim, holders: list[dict[str, Any]], held: Held | None) -> bool:
    if not holders:
        return NOT_KNOWN in claim.holders or held == (NOT_KNOWN, "")
    if claim.holder_lines and _line(holders[0]) not in claim.holder_lines:
        return False
    if held is not None:
        # Beside what such a line has kept there may be what it has made just now.
        least = LEAST_OF_A_LINE if claim.held_by_line else 1
        is_alone = [row["what"] for row in holders] == [held[0]] and holders[0]["share"] >= least
        return is_alone and fnmatch.fnmatchcase(holders[0]["through"], held[1])
    what = holders[0]["what"]
    return any(re.search(rf"\b{re.escape(name)}\b", what) for name in claim.holders)


def _place(verdict: dict[str, Any]) -> str:
    return f"{Path(verdict['file'] or 'no file').name} line {verdict['line']} ({verdict['kind']})"


def _in_words(holder: dict[str, Any]) -> str:
    through = holder["through"] or "nothing"
    return f"{holder['what']} ({holder['share']:.2%}, line {holder['line']}) through {through}"
