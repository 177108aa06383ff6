"""What a program of programs/ claims of its out-of-memory error, by the header at its top.

A header is comments before the first line of code:

    # ERROR: a batch that is too large
    # ROOM: 200, 300
    # FIRST: a batch of (\\d+) fits
    # FITS-AFTER: batch=256 -> batch=\\1

ERROR comes first, with a line about the program. ROOM has the MiB of the GPU that it can have, and with each of them it
has to run out of memory. The others say what its error does:

VERDICT is that of the report, SAYS a regular expression that is found in the error, its lines joined, and UNSAID one
that is not. Both may be there several times. FIRST is a regular expression with which an error's first advice begins;
where there are several, an error has one of them, and each is some error's. THEN is one of any advice of an error.

FITS-AFTER carries out the advice above it: "OLD -> NEW" is an edit of the program, in which NEW may refer to groups of
the advice's expression, and "as told" puts what is told where it is told. The program then fits into the same room.
FAILS-AFTER is an edit after which it does not. Several such lines after one advice are one edit.

A line that ends with "# request" is the one that asks for the memory. "{kept}" in an expression is the number of the
line that ends with "# kept".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

PROGRAMS = Path(__file__).parent / "programs"
AS_TOLD = "as told"
_FIELD = re.compile(r"# ([A-Z-]+): (.+)")
_MARK = re.compile(r"  # ([a-z]+)$")
_MARKED = re.compile(r"\{([a-z]+)\}")
_TOLD = re.compile(r"(?P<change>.+?) before line (?P<line>\d+) of \S+ frees ")
_MOST_LINES, _MOST_COLUMNS = 27, 100


class BadHeader(ValueError):
    """A program's header does not say what it has to."""


class Advice(NamedTuple):
    """What an error advises, and the edits of the program that carry it out."""

    is_first: bool
    said: re.Pattern[str]
    fits_after: tuple[str, ...] = ()
    fails_after: tuple[str, ...] = ()

    def found_in(self, error: dict[str, Any]) -> re.Match[str] | None:
        """`error` is a report's "oom"."""
        texts = [advice["text"] for advice in error["advice"]]
        found = map(self.said.match, texts[:1] if self.is_first else texts)
        return next(filter(None, found), None)


class Claim(NamedTuple):
    """What is so of a program's errors."""

    file: Path
    about: str
    rooms: tuple[int, ...]
    verdict: str
    says: tuple[str, ...]
    unsaid: tuple[str, ...]
    advice: tuple[Advice, ...]
    request_line: int | None


def all_files() -> list[Path]:
    return sorted(PROGRAMS.glob("*.py"))


def read(file: Path) -> Claim:
    """Raises BadHeader."""
    lines = file.read_text().splitlines()
    fields: dict[str, list[str]] = {key: [] for key in ("ERROR", "ROOM", "VERDICT", "SAYS", "UNSAID")}
    advice: list[Advice] = []
    marks = {mark[1]: number for number, line in enumerate(lines, 1) if (mark := _MARK.search(line)) is not None}
    for key, value in _header(lines):
        if key in ("SAYS", "UNSAID", "FIRST", "THEN"):
            value = _MARKED.sub(lambda mark: str(marks.get(mark[1], mark[0])), value)
            if _MARKED.search(value):
                raise BadHeader(f"{file.name}: no line has the mark of {value}")
        if key in ("FIRST", "THEN"):
            advice.append(Advice(key == "FIRST", re.compile(value)))
        elif key in ("FITS-AFTER", "FAILS-AFTER") and advice:
            name = key.lower().replace("-", "_")
            advice[-1] = advice[-1]._replace(**{name: (*getattr(advice[-1], name), value)})
        elif key in fields:
            fields[key].append(value)
        else:
            raise BadHeader(f"{file.name}: nothing is known of {key} here")
    if not (len(fields["ERROR"]) == len(fields["ROOM"]) == 1) or len(fields["VERDICT"]) > 1:
        raise BadHeader(f"{file.name}: one ERROR, one ROOM and at most one VERDICT are needed")
    return Claim(
        file,
        fields["ERROR"][0],
        tuple(map(int, fields["ROOM"][0].split(","))),
        "".join(fields["VERDICT"]),
        tuple(fields["SAYS"]),
        tuple(fields["UNSAID"]),
        tuple(advice),
        marks.get("request"),
    )


def _header(lines: list[str]) -> list[tuple[str, str]]:
    found = []
    for line in lines:
        if (field := _FIELD.fullmatch(line)) is None:
            break
        found.append((field[1], field[2]))
    return found


def shortcomings(claim: Claim, error: dict[str, Any]) -> list[str]:
    """In what an error is not as the program claims; `error` is a report's "oom"."""
    short = _of_form(error["message"].splitlines())
    text = " ".join(error["message"].split())
    short += [f"does not say {words}" for words in claim.says if not re.search(words, text)]
    short += [f"says {words}" for words in claim.unsaid if re.search(words, text)]
    if claim.verdict not in ("", error["verdict"]):
        short.append(f"its verdict is {error['verdict']}")
    if claim.request_line not in (None, error["line"]):
        short.append(f"line {error['line']} is said to ask")
    if any(advice.is_first for advice in claim.advice) and not any(advice.is_first for advice, _ in told(claim, error)):
        short.append("its first advice is another one")
    return short


def told(claim: Claim, error: dict[str, Any]) -> list[tuple[Advice, re.Match[str]]]:
    """The advice of the claim that an error gives: one FIRST at most, and all THEN."""
    found = [(advice, said) for advice in claim.advice if (said := advice.found_in(error)) is not None]
    first = [pair for pair in found if pair[0].is_first]
    return first[:1] + [pair for pair in found if not pair[0].is_first]


def _of_form(lines: list[str]) -> list[str]:
    """PyTorch's sentence, then ours, on a small first screen."""
    short = []
    if not re.match(r"CUDA out of memory\. Tried to allocate [\d.]+ \w+\. GPU 0 has a total capacity of ", lines[0]):
        short.append("does not begin with PyTorch's sentence")
    if not re.match(r"[A-Z][\w ,-]+: ", lines[1]):
        short.append("the verdict does not follow at once")
    if len(lines) > _MOST_LINES or any(len(line) > _MOST_COLUMNS for line in lines[1:]):
        short.append("is too long or too wide")
    return short


def edited(source: str, edits: tuple[str, ...], told: re.Match[str]) -> str:
    """The program with the edits of a header. Raises BadHeader where there is nothing to edit."""
    header = "\n".join(f"# {key}: {value}" for key, value in _header(source.splitlines())) + "\n"
    body = source.removeprefix(header)
    for edit in edits:
        if edit == AS_TOLD:
            return _as_told(source, told.string)
        old, _, new = edit.partition(" -> ")
        if not new or old not in body:
            raise BadHeader(f"the program has no {old!r} to edit")
        body = body.replace(old, told.expand(new))
    return header + body


def _as_told(source: str, advice: str) -> str:
    if (told := _TOLD.match(advice)) is None:
        raise BadHeader(f"{advice!r} does not tell what to put before which line")
    lines = source.splitlines(keepends=True)
    at = int(told["line"]) - 1
    indent = re.match(" *", lines[at])[0]
    lines.insert(at, f"{indent}{told['change']}\n")
    return "".join(lines)
