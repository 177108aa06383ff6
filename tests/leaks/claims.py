"""What a program of programs/ is, by the header at its top, and whether its report says so.

A header is comments before the first line of code:

    # LEAK: every batch's predictions, with their graphs
    # HOLDER: predictions
    # REMEDY: .detach() | .cpu()

LEAK, HEALTHY or MEANT comes first, with a line about the program. MEANT is growth that the program is written for. A
leak's lines end with "# leak": each that makes what stays, as far as it is material. HOLDER has the names of the
program's by which the holder may be called, or "not known". REMEDY has the words of advice that mends it: some of them
are enough. MODULE names another file of the program's, with lines that leak. VALUES: cpu is for a program that needs
kernels to be computed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from program_runs import PROGRAMS, Run

MARKER = "# leak"
NOT_KNOWN = "not known"
# Verdicts that tell a user of something to mend.
ACCUSING = ("leak", "suspect", "growing", "cycle", "outside")
_FIELD = re.compile(r"# ([A-Z]+): (.+)")
KINDS = ("LEAK", "HEALTHY", "MEANT")


class BadHeader(ValueError):
    """A program's header does not say what it has to."""


class Claim(NamedTuple):
    """What is so of a program."""

    name: str
    kind: str  # LEAK, HEALTHY or MEANT
    about: str
    lines: frozenset[tuple[str, int]]  # that leak: the name of the file, and the number
    holders: tuple[str, ...]
    remedies: tuple[str, ...]
    values: str


class Judgement(NamedTuple):
    """How a report is on each matter: "right", "wrong", "missing" where it says nothing, or "-" where nothing is asked;
    and what it told."""

    line: str
    holder: str
    remedy: str
    accused: tuple[str, ...]  # innocent lines
    told: str

    @property
    def is_right(self) -> bool:
        return not self.accused and {self.line, self.holder, self.remedy} <= {"right", "-"}


def all_names() -> list[str]:
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


def some_names() -> list[str]:
    """The first leak that each remedy of a header is for, and every fourth program that does not leak."""
    found = [read(name) for name in all_names()]
    leaks = {claim.remedies: claim.name for claim in reversed(found) if claim.kind == "LEAK"}
    return sorted([*leaks.values(), *[claim.name for claim in found if claim.kind != "LEAK"][::4]])


def read(name: str) -> Claim:
    """Raises BadHeader."""
    file = PROGRAMS / f"{name}.py"
    fields = _fields(file.read_text())
    kind, about = next(iter(fields.items()), ("", ""))
    files = [file, *(PROGRAMS / module for module in _alternatives(fields.get("MODULE", "")))]
    lines = frozenset(marked for one in files for marked in _marked(one))
    holders, remedies = (_alternatives(fields.get(key, "")) for key in ("HOLDER", "REMEDY"))
    wanted = {"LEAK", "HOLDER", "REMEDY"} if kind == "LEAK" else {kind}
    if kind not in KINDS or set(fields) - {"MODULE", "VALUES"} != wanted or (kind == "LEAK") != bool(lines):
        raise BadHeader(f"{name}.py: its header has {', '.join(fields) or 'nothing'}, and {len(lines)} lines leak")
    return Claim(name, kind, about, lines, holders, remedies, fields.get("VALUES", "none"))


def judge(claim: Claim, run: Run) -> Judgement:
    """Compares what is so with what was reported. Only material verdicts count.

    Raises:
        RuntimeError: the program failed, or wrote no report.
    """
    if run.status or run.document is None:
        raise RuntimeError(f"{claim.name}.py ended with status {run.status}:\n{run.output}")
    verdicts = [one for one in run.document["verdicts"] if one["material"] and one["kind"] in ACCUSING]
    guilty = [one for one in verdicts if _is_of(claim, one)]
    accused = tuple(_place(claim, one) for one in verdicts if not _is_of(claim, one))
    told = "; ".join(_told(claim, one) for one in verdicts) or "no leak"
    if claim.kind != "LEAK":
        return Judgement("-", "-", "-", accused, told)
    if not guilty:
        return Judgement("missing", "-", "-", accused, told)
    # A reader goes by what comes first.
    first = guilty[0]
    line = "right" if verdicts[0] is first else "wrong"
    return Judgement(line, _holder(claim, first), _remedy(claim, first), accused, told)


def _fields(source: str) -> dict[str, str]:
    fields = {}
    for line in source.splitlines():
        if not line.startswith("#"):
            break
        if (found := _FIELD.fullmatch(line)) is not None:
            fields[found[1]] = found[2]
    return fields


def _alternatives(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split("|") if one.strip())


def _marked(file: Path) -> list[tuple[str, int]]:
    lines = file.read_text().splitlines()
    return [(file.name, number) for number, line in enumerate(lines, 1) if line.endswith(MARKER)]


def _is_of(claim: Claim, verdict: dict[str, Any]) -> bool:
    return (Path(verdict["file"] or "").name, verdict["line"]) in claim.lines


def _holder(claim: Claim, verdict: dict[str, Any]) -> str:
    if not verdict["held_by"]:
        return "right" if NOT_KNOWN in claim.holders else "missing"
    what = verdict["held_by"][0]["what"]
    return "right" if any(re.search(rf"\b{re.escape(name)}\b", what) for name in claim.holders) else "wrong"


def _remedy(claim: Claim, verdict: dict[str, Any]) -> str:
    if verdict["pattern"] == "unknown":
        return "-"
    return "right" if any(words in verdict["advice"] for words in claim.remedies) else "wrong"


def _place(claim: Claim, verdict: dict[str, Any]) -> str:
    file = Path(verdict["file"] or "no file")
    where = "" if file.stem == claim.name else f"{file.name} "
    return f"{where}line {verdict['line']} ({verdict['kind']})"


def _told(claim: Claim, verdict: dict[str, Any]) -> str:
    holder = verdict["held_by"][0]["what"] if verdict["held_by"] else NOT_KNOWN
    return f"{_place(claim, verdict)} held by {holder} -> {verdict['advice']}"
