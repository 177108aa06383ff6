"""Carries out the first advice of each program in kept_back/, and counts how often it helps.

These programs were written after public questions by somebody who did not know how advice is found, and no arithmetic
is tuned to them. A header says what is so of a program's error: ROOM, in MiB, VERDICT, the line of the REQUEST, the
HOLDER of what need not be kept, the LARGEST batch that fits, and for each kind of change how it is made in this
program: "CHANGE kind: OLD -> NEW", where NEW may have the {n} of the advice, and either \\n for the end of a line.

    python tests/out_of_memory/first_advice.py     prints a line for each program, and the counts
"""

from __future__ import annotations

import ast
import itertools
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import error_claims
from running import error_of, run, write

PROGRAMS = Path(__file__).resolve().parent / "kept_back"
# What advice begins with, by the kind of change; "n": how many.
_KINDS = {
    "batch": r"a batch of (?P<n>\d+) fits",
    "longest": r"samples of at most (?P<n>\d+)",
    "chunk_loss": r"the loss in (?P<n>\d+) chunks",
    "fewer": r"fewer at a time: .*; (?:at most )?(?P<n>\d+)",
    "pieces": r"this one tensor of \S+ \S+ in (?P<n>\d+) pieces",
    "after_except": r".*\bexcept\b|.*clear_frames",
    "delete": r"(?P<change>.+?) (?:before line|as the last line of the loop at line) (?P<line>\d+)",
    "no_grad": r"call `?[\w.]+`? .*under torch\.no_grad\(\)",
    "detach": r"`[^`]+` (?:keeps \d+ results with their graphs|holds the graphs)|.* with the graphs that made them",
    "map_location": r"(?:torch\.load|load_file)\(",
    "host": r"`[^`]+` (?:holds \d+ tensors on the GPU|on the host)|eval_accumulation_steps",
    "move_later": r"`[^`]+` \([^)]+\) is not needed while",
    "foreach": r"\w+\(\.\.\., foreach=False\)",
    "optimizer": r"\w+ keeps \S+ \S+ beside the parameters",
    "half": r"half precision",
    "crop_cache": r"bound what grows|.* (?:gets new entries and loses none|is replaced by a larger|is concatenated to)",
    "checkpoint": r"checkpoint the layers",
    "none": r"no batch fits|the model does not fit",
}


class Outcome(NamedTuple):
    """Of a program. None: it has nothing of the sort."""

    name: str
    advice: str
    kind: str
    has_verdict: bool
    has_line: bool
    has_holder: bool | None
    fits: bool
    share: float | None  # that a batch which is named is of the largest that fits


def outcome(file: Path, folder: Path) -> Outcome:
    """Runs it, and once more as it is advised to be."""
    fields = _header(file)
    room = int(fields["ROOM"][0])
    program = write(folder / file.name, file.read_text())
    error = error_of(program, room)
    advice = next((change["text"] for change in error["advice"]), "")
    kind, found = next(((kind, m) for kind, words in _KINDS.items() if (m := re.match(words, advice))), ("", None))
    holders = fields.get("HOLDER")
    largest = int(fields["LARGEST"][0]) if "LARGEST" in fields else None
    share = int(found["n"]) / largest if kind == "batch" and largest and found is not None else None
    return Outcome(
        file.stem,
        advice,
        kind,
        error["verdict"] == fields["VERDICT"][0],
        str(error["line"]) in re.findall(r"\d+", fields["REQUEST"][0]),
        None if holders is None else any(holder.split(".")[-1] in error["message"] for holder in holders),
        _helps(program, kind, found, fields, room),
        share,
    )


def _header(file: Path) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        if (field := re.fullmatch(r"# ([A-Z]+(?: [a-z_]+)?): (.+)", line)) is None:
            break
        fields.setdefault(field[1], []).append(field[2])
    return fields


def _helps(program: Path, kind: str, found: Any, fields: dict[str, list[str]], room: int) -> bool:
    works = re.findall(r"\w+", fields["WORKS"][0])
    if kind == "none":  # true where no batch helps
        return "batch" not in works
    edits = fields.get(f"CHANGE {kind}", [])
    source = program.read_text()
    if kind == "delete":
        changed = _with_line(source, found["change"], int(found["line"]), "before line" in found[0])
    elif edits:
        changed = source
        for old, _, new in (edit.replace("\\n", "\n").partition(" -> ") for edit in edits):
            changed = _replaced(changed, old, new.replace("{n}", found.groupdict().get("n") or ""))
    else:
        return False
    return run(write(program.parent / "after" / program.name, changed), room).returncode == 0


def _replaced(source: str, old: str, new: str) -> str:
    header = "".join(itertools.takewhile(lambda line: line.startswith("# "), source.splitlines(keepends=True)))
    body = source.removeprefix(header)
    if body.count(old) != 1:
        raise error_claims.BadHeader(f"the program has {old!r} {body.count(old)} times")
    return header + body.replace(old, new)


def _with_line(source: str, change: str, line: int, is_before: bool) -> str:
    """With a change before a line, or as the last one of the loop that begins there."""
    lines, at, model = source.splitlines(keepends=True), line - 1, line - 1
    if not is_before:
        loops = (node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.For, ast.While)))
        loop = next(node for node in loops if node.lineno == line)
        at, model = loop.body[-1].end_lineno or line, loop.body[0].lineno - 1
    indent = lines[model][: len(lines[model]) - len(lines[model].lstrip())]
    return "".join((*lines[:at], f"{indent}{change}\n", *lines[at:]))


def all_outcomes() -> list[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        return [outcome(file, Path(folder) / file.stem) for file in sorted(PROGRAMS.glob("*.py"))]


def counts(outcomes: list[Outcome]) -> dict[str, tuple[int, int]]:
    """Of how many it is so, and of how many it could be."""
    shares = [one.share for one in outcomes if one.share is not None]
    holders = [one.has_holder for one in outcomes if one.has_holder is not None]
    return {
        "fits": (sum(one.fits for one in outcomes), len(outcomes)),
        "verdict": (sum(one.has_verdict for one in outcomes), len(outcomes)),
        "line": (sum(one.has_line for one in outcomes), len(outcomes)),
        "holder": (sum(holders), len(holders)),
        "batch within .8 to 1.0": (sum(0.8 <= share <= 1.0 for share in shares), len(shares)),
        "batch too large": (sum(share > 1.0 for share in shares), len(shares)),
    }


if __name__ == "__main__":
    found = all_outcomes()
    for one in found:
        share = "" if one.share is None else f"{one.share:.2f}"
        marks = "".join(
            letter if so else "-"
            for letter, so in zip("vlhf", (one[3], one[4], one[5] is not False, one.fits), strict=True)
        )
        print(f"{one.name:26} {marks} {one.kind:13} {share:5} {one.advice[:110]}")
    for name, (so, of) in counts(found).items():
        print(f"{name}: {so} of {of}")
