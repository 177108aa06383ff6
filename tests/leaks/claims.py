"""What a program of programs/ is, by the header at its top, and whether its report says so.

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

HELD, in HOLDER's place, is the only holder, and holds all of the leak; THROUGH is the way from there to the tensors. A
line that ends with "# holder" is where the program makes the holder. VERDICT has the kind and the pattern. LIKE has, of
a program that does not leak, the pattern of those that it looks like. EPOCHS has how their ends are found, how many
there were, and the steps. An innocent program that says one of these gets no verdict, be it material or not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from program_runs import PROGRAMS, Run

MARKER = "# leak"
HOLDER_MARKER = "# holder"
NOT_KNOWN = "not known"
# Verdicts that tell a user of something to mend.
ACCUSING = ("leak", "suspect", "growing", "cycle", "outside")
_FIELD = re.compile(r"# ([A-Z]+): (.+)")
KINDS = ("LEAK", "HEALTHY", "MEANT")
NO_LINE = frozenset({("", None)})
# What a header of each kind may have besides.
_MORE_OF_ALL = {"MODULE", "VALUES", "EPOCHS"}
_MORE = {"LEAK": _MORE_OF_ALL | {"LINE", "THROUGH", "VERDICT"}}


class BadHeader(ValueError):
    """A program's header does not say what it has to."""


class Claim(NamedTuple):
    """What is so of a program."""

    name: str
    kind: str  # LEAK, HEALTHY or MEANT
    about: str
    lines: frozenset[tuple[str, int | None]]  # that leak: the name of the file, and the number
    holders: tuple[str, ...]
    remedies: tuple[str, ...]
    values: str
    held: tuple[str, str] | None = None  # HELD and THROUGH
    holder_lines: frozenset[tuple[str, int | None]] = frozenset()
    verdict: str = ""
    like: str = ""
    epochs: str = ""


class Judgement(NamedTuple):
    """How a report is on each matter: "right", "wrong", "missing" where it says nothing, or "-" where nothing is asked;
    and what it told."""

    line: str
    holder: str
    remedy: str
    accused: tuple[str, ...]  # innocent lines
    told: str
    verdict: str = "-"
    epochs: str = "-"

    @property
    def is_right(self) -> bool:
        matters = {self.line, self.holder, self.remedy, self.verdict, self.epochs}
        return not self.accused and matters <= {"right", "-"}


def all_names() -> list[str]:
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


def some_names() -> list[str]:
    """Every program whose header says more than it has to, as nothing else may be of its rule; of the others the first
    leak that each remedy is for which those lack, and every fourth that does not leak."""
    claims = [read(name) for name in all_names()]
    some = [claim for claim in claims if claim.held or claim.verdict or claim.like or claim.epochs]
    others = [claim for claim in claims if claim not in some]
    for claim in others:
        if not set(claim.remedies) <= {remedy for known in some for remedy in known.remedies}:
            some.append(claim)
    innocent = [claim for claim in others if claim.kind != "LEAK"]
    return sorted(claim.name for claim in [*some, *innocent[::4]])


def read(name: str) -> Claim:
    """Raises BadHeader."""
    file = PROGRAMS / f"{name}.py"
    fields = _fields(file.read_text())
    kind, about = next(iter(fields.items()), ("", ""))
    files = [file, *(PROGRAMS / module for module in _alternatives(fields.get("MODULE", "")))]
    lines, holder_lines = (_marked(files, marker) for marker in (MARKER, HOLDER_MARKER))
    if not _is_complete(kind, fields) or (kind == "LEAK") != (bool(lines) != (fields.get("LINE") == NOT_KNOWN)):
        raise BadHeader(f"{name}.py: its header has {', '.join(fields) or 'nothing'}, and {len(lines)} lines leak")
    return Claim(
        name,
        kind,
        about,
        NO_LINE if "LINE" in fields else lines,
        *(_alternatives(fields.get(key, "")) for key in ("HOLDER", "REMEDY")),
        fields.get("VALUES", "none"),
        (fields["HELD"], fields.get("THROUGH", "")) if "HELD" in fields else None,
        holder_lines,
        *(fields.get(key, "") for key in ("VERDICT", "LIKE", "EPOCHS")),
    )


def judge(claim: Claim, run: Run) -> Judgement:
    """Compares what is so with what was reported. Only material verdicts count, but for innocents that say more.

    Raises:
        RuntimeError: the program failed, or wrote no report.
    """
    if run.status or run.document is None:
        raise RuntimeError(f"{claim.name}.py ended with status {run.status}:\n{run.output}")
    all_count = claim.kind != "LEAK" and bool(claim.like or claim.epochs)
    rows = run.document["verdicts"]
    verdicts = [row for row in rows if all_count or (row["material"] and row["kind"] in ACCUSING)]
    guilty = [one for one in verdicts if _is_of(claim, one)]
    accused = tuple(_place(claim, one) for one in verdicts if not _is_of(claim, one))
    told = "; ".join(_told(claim, one) for one in verdicts) or "no leak"
    epochs = _epochs(claim, run.document)
    if claim.kind != "LEAK":
        return Judgement("-", "-", "-", accused, told, epochs=epochs)
    if not guilty:
        return Judgement("missing", "-", "-", accused, told, epochs=epochs)
    # A reader goes by what comes first.
    first = guilty[0]
    line = "right" if verdicts[0] is first else "wrong"
    holder, remedy, verdict = (judged(claim, first) for judged in (_holder, _remedy, _verdict))
    return Judgement(line, holder, remedy, accused, told, verdict, epochs)


def _is_complete(kind: str, fields: dict[str, str]) -> bool:
    """Whether a header has all that its kind needs, and nothing that this does not have."""
    holder = "HELD" if "HELD" in fields else "HOLDER"
    needed = {"LEAK", holder, "REMEDY"} if kind == "LEAK" else {kind}
    more = _MORE.get(kind, _MORE_OF_ALL | {"LIKE"})
    is_asked = "THROUGH" not in fields or holder == "HELD"
    return kind in KINDS and is_asked and needed <= set(fields) <= needed | more


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


def _marked(files: list[Path], marker: str) -> frozenset[tuple[str, int | None]]:
    lines = [(file, *line) for file in files for line in enumerate(file.read_text().splitlines(), 1)]
    return frozenset((file.name, number) for file, number, line in lines if line.endswith(marker))


def _line(place: dict[str, Any]) -> tuple[str, int | None]:
    return Path(place["file"] or "").name, place["line"]


def _is_of(claim: Claim, verdict: dict[str, Any]) -> bool:
    return _line(verdict) in claim.lines


def _holder(claim: Claim, verdict: dict[str, Any]) -> str:
    holders = verdict["held_by"]
    if not holders:
        return "right" if NOT_KNOWN in claim.holders else "missing"
    if claim.holder_lines and _line(holders[0]) not in claim.holder_lines:
        return "wrong"
    if claim.held is not None:
        all_of_it = [(holder["what"], holder["through"], holder["share"]) for holder in holders]
        return "right" if all_of_it == [(*claim.held, 1)] else "wrong"
    what = holders[0]["what"]
    return "right" if any(re.search(rf"\b{re.escape(name)}\b", what) for name in claim.holders) else "wrong"


def _verdict(claim: Claim, verdict: dict[str, Any]) -> str:
    if not claim.verdict:
        return "-"
    return "right" if claim.verdict == f"{verdict['kind']}, {verdict['pattern']}" else "wrong"


def _epochs(claim: Claim, document: dict[str, Any]) -> str:
    if not claim.epochs:
        return "-"
    epochs = document["epochs"]
    return "right" if claim.epochs == _epochs_in_words(epochs) else f"wrong ({_epochs_in_words(epochs)})"


def _epochs_in_words(epochs: dict[str, Any]) -> str:
    return f"{epochs['found_by']}, {epochs['ended']} ended, {epochs['steps']} steps"


def _remedy(claim: Claim, verdict: dict[str, Any]) -> str:
    if verdict["pattern"] == "unknown" and not claim.verdict:
        return "-"
    return "right" if any(words in verdict["advice"] for words in claim.remedies) else "wrong"


def _place(claim: Claim, verdict: dict[str, Any]) -> str:
    file = Path(verdict["file"] or "no file")
    where = "" if file.stem == claim.name else f"{file.name} "
    return f"{where}line {verdict['line']} ({verdict['kind']})"


def _told(claim: Claim, verdict: dict[str, Any]) -> str:
    holders = [
        f"{holder['what']} ({holder['share']:.2%}, line {holder['line']}) through {holder['through'] or 'nothing'}"
        for holder in verdict["held_by"]
    ]
    held = f"held by {' and '.join(holders) or NOT_KNOWN}"
    return f"{_place(claim, verdict)} {held} -> {verdict['pattern']}: {verdict['advice']}"
