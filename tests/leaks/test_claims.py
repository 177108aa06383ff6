"""What counts as right of a program's report, and what a header has to say."""

from __future__ import annotations

from pathlib import Path

import claims
import pytest
from claims import Claim

EXACT = Claim(
    "train",
    "LEAK",
    "",
    frozenset({("train.py", 7)}),
    (),
    (".cpu()",),
    "none",
    held=("list 'kept'", "tensor 'x' of Box"),
    holder_lines=frozenset({("train.py", 3)}),
    verdict="leak, outputs_kept",
    epochs="data_loader, 9 ended, 40 steps",
    note="workers",
    rate="18.00 MiB",
)
LEAKING = EXACT._replace(
    holders=("kept", "model"), held=None, holder_lines=frozenset(), verdict="", epochs="", note="", rate=""
)
INNOCENT = Claim("train", "HEALTHY", "", frozenset(), (), (), "none")


def holder(**changes) -> dict:
    row = {"what": "list 'kept'", "through": "tensor 'x' of Box", "share": 1.0}
    return row | {"file": "/somewhere/train.py", "line": 3} | changes


def verdict(**changes) -> dict:
    row = {"file": "/somewhere/train.py", "line": 7, "kind": "leak", "material": True, "pattern": "outputs_kept"}
    row |= {"bytes_per_epoch": 18 << 20}
    return row | {"held_by": [holder()], "advice": "store .cpu()"} | changes


def shortcomings(claim: Claim, *verdicts: dict, notes: tuple[str, ...] = ("2 workers",), **epochs) -> list[str]:
    """Each by its first word."""
    epochs = {"found_by": "data_loader", "ended": 9, "steps": 40} | epochs
    document = {"verdicts": list(verdicts), "epochs": epochs, "notes": list(notes)}
    return [short.split()[0].rstrip(":") for short in claims.shortcomings(claim, document)]


NOT_KNOWN = LEAKING._replace(lines=claims.NO_LINE, holders=(claims.NOT_KNOWN,))
PLACELESS = verdict(file=None, line=None, held_by=[])


@pytest.mark.parametrize(
    ("claim", "rows"),
    [
        (LEAKING, [verdict()]),
        (EXACT, [verdict()]),
        (NOT_KNOWN, [PLACELESS]),
        (INNOCENT, []),
        (INNOCENT, [verdict(material=False)]),
        (INNOCENT._replace(kind="MEANT", epochs=EXACT.epochs, note=EXACT.note), []),
        # Where no pattern is known, there is no remedy.
        (LEAKING, [verdict(pattern="unknown", advice="let it go")]),
    ],
)
def test_what_is_told_as_it_is_is_right(claim: Claim, rows: list[dict]) -> None:
    assert shortcomings(claim, *rows) == []


@pytest.mark.parametrize(
    ("claim", "changes", "expected"),
    [
        (LEAKING, {"held_by": [holder(what="tensor 'out'")]}, "holder"),
        (LEAKING, {"held_by": []}, "holder"),
        (LEAKING, {"advice": "store loss.item()"}, "remedy"),
        (LEAKING._replace(verdict="leak, unknown"), {"pattern": "unknown", "advice": "let it go"}, "remedy"),
        (LEAKING, {"material": False}, "the"),
        (NOT_KNOWN, {"file": None, "line": None}, "holder"),
        (EXACT, {"held_by": [holder(what="list 'kept' of Box")]}, "holder"),
        (EXACT, {"held_by": [holder(through="")]}, "holder"),
        (EXACT, {"held_by": [holder(), holder(what="list 'other'")]}, "holder"),
        (EXACT, {"held_by": [holder(line=4)]}, "holder"),
        (EXACT, {"pattern": "hook"}, "verdict"),
        (EXACT, {"bytes_per_epoch": 12 << 20}, "rate"),
    ],
)
def test_what_is_wrong_or_missing_is_told_apart(claim: Claim, changes: dict, expected: str) -> None:
    assert shortcomings(claim, verdict(**changes)) == [expected]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"found_by": "steps"}, "epochs"), ({"ended": 10}, "epochs"), ({"steps": 41}, "epochs"), ({"notes": ()}, "the")],
)
def test_epochs_and_note_of_the_header_have_to_be_there(changes: dict, expected: str) -> None:
    assert shortcomings(EXACT, verdict(), **changes) == [expected]


@pytest.mark.parametrize("changes", [{"line": 8}, {"file": "/somewhere/other.py"}, {"file": None, "line": None}])
def test_innocent_line_is_accused_and_may_not_come_before_the_leak(changes: dict) -> None:
    assert shortcomings(LEAKING, verdict(), verdict(**changes)) == ["accuses"]
    assert shortcomings(INNOCENT, verdict(**changes)) == ["accuses"]
    assert shortcomings(INNOCENT._replace(likes=("hook",)), verdict(material=False)) == ["accuses"]
    assert shortcomings(LEAKING, verdict(**changes), verdict()) == ["accuses", "the"]
    assert shortcomings(NOT_KNOWN, verdict()) == ["accuses", "the"]


def test_holder_of_each_line_is_asked_for_where_lines_have_their_own() -> None:
    held_by_line = ((("train.py", 7), ("list 'kept'", "tensor 'x' of Box")), (("train.py", 8), ("list 'b'", "")))
    claim = LEAKING._replace(lines=frozenset(place for place, _ in held_by_line), held_by_line=held_by_line)
    second = verdict(line=8, held_by=[holder(what="list 'b'", through="", share=0.95)])
    assert shortcomings(claim, verdict(), second) == []
    for other in ({"what": "list 'b'"}, {"share": 0.94}):
        assert shortcomings(claim, second, verdict(held_by=[holder(**other)])) == ["holder"]
    assert shortcomings(claim, verdict()) == ["the"]
    nobody = claim._replace(held_by_line=tuple((place, (claims.NOT_KNOWN, "")) for place, _ in held_by_line))
    assert shortcomings(nobody, verdict(held_by=[]), second) == ["holder"]


LEAK = "# LEAK: something\n# HOLDER: kept\n"


@pytest.mark.parametrize(
    "source",
    [
        "import torch\n",
        f"{LEAK}# REMEDY: .cpu()\n",
        "# HEALTHY: nothing\nmake()  # leak\n",
        "# HEALTHY: nothing\n# HOLDER: kept\n",
        "# HOLDER: kept\n# LEAK: something\n# REMEDY: .cpu()\nmake()  # leak\n",
        f"{LEAK}# REMEDY: .cpu()\n# LINE: not known\nmake()  # leak\n",
        f"{LEAK}# REMEDY: .cpu()\n# THROUGH: x\nmake()  # leak\n",
        f"{LEAK}# REMEDY: .cpu()\nmake()  # leak: list 'kept'\n",
        "# LEAK: something\n# REMEDY: .cpu()\nmake()  # leak: list 'kept'\nmake()  # leak\n",
    ],
)
def test_header_that_does_not_say_what_is_so_is_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(claims.BadHeader, match=r"program\.py"):
        read(tmp_path, source)


def read(folder: Path, source: str) -> Claim:
    (folder / "program.py").write_text(source)
    return claims.read("program", folder / "program.py")


def test_header_and_marks_are_read_to_the_first_line_of_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "PROGRAMS", tmp_path)
    (tmp_path / "part.py").write_text("make()  # leak\n")
    header = "# LEAK: two\n# HELD: list 'a'\n# THROUGH: b\n# VERDICT: leak, hook\n# REMEDY: x\n# MODULE: part.py\n"
    claim = read(tmp_path, f"{header}a = []  # holder\nmake()  # leak\n# HOLDER: c\n")
    assert (claim.lines, claim.holder_lines) == ({("program.py", 8), ("part.py", 1)}, {("program.py", 7)})
    assert (claim.held, claim.holders, claim.verdict) == (("list 'a'", "b"), (), "leak, hook")
    marks = "a.append(make())  # leak: list 'a'\nb.append(make())  # leak: list 'b' through tensor 'x' of Box\n"
    expected = ((("program.py", 3), ("list 'a'", "")), (("program.py", 4), ("list 'b'", "tensor 'x' of Box")))
    assert read(tmp_path, f"# LEAK: two\n# REMEDY: x\n{marks}").held_by_line == expected
