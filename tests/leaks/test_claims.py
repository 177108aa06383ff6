"""What counts as right of a program's report, and what a header has to say."""

from __future__ import annotations

import claims
import pytest
from claims import Claim
from program_runs import Run

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
)
LEAKING = EXACT._replace(holders=("kept", "model"), held=None, holder_lines=frozenset(), verdict="", epochs="")
INNOCENT = Claim("train", "HEALTHY", "", frozenset(), (), (), "none")


def holder(**changes) -> dict:
    row = {"what": "list 'kept'", "through": "tensor 'x' of Box", "share": 1.0}
    return row | {"file": "/somewhere/train.py", "line": 3} | changes


def verdict(**changes) -> dict:
    row = {"file": "/somewhere/train.py", "line": 7, "kind": "leak", "material": True, "pattern": "outputs_kept"}
    return row | {"held_by": [holder()], "advice": "store .cpu()"} | changes


def judged(*verdicts: dict, claim: Claim = LEAKING, **epochs) -> claims.Judgement:
    epochs = {"found_by": "data_loader", "ended": 9, "steps": 40} | epochs
    return claims.judge(claim, Run(0, "", {"verdicts": list(verdicts), "epochs": epochs}))


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
        (INNOCENT._replace(kind="MEANT", epochs=EXACT.epochs), []),
    ],
)
def test_what_is_told_as_it_is_is_right(claim: Claim, rows: list[dict]) -> None:
    assert judged(*rows, claim=claim).is_right


@pytest.mark.parametrize(
    ("claim", "changes", "matter", "expected"),
    [
        (LEAKING, {"held_by": [holder(what="tensor 'out'")]}, "holder", "wrong"),
        (LEAKING, {"held_by": [holder(what="list 'kept_too'")]}, "holder", "wrong"),
        (LEAKING, {"held_by": []}, "holder", "missing"),
        (LEAKING, {"advice": "store loss.item()"}, "remedy", "wrong"),
        (LEAKING, {"material": False}, "line", "missing"),
        (NOT_KNOWN, {"file": None, "line": None}, "holder", "wrong"),
        (NOT_KNOWN, {}, "line", "missing"),
        (EXACT, {"held_by": [holder(what="list 'kept' of Box")]}, "holder", "wrong"),
        (EXACT, {"held_by": [holder(through="")]}, "holder", "wrong"),
        (EXACT, {"held_by": [holder(share=0.99)]}, "holder", "wrong"),
        (EXACT, {"held_by": [holder(), holder(what="list 'other'")]}, "holder", "wrong"),
        (EXACT, {"held_by": [holder(line=4)]}, "holder", "wrong"),
        (EXACT, {"kind": "growing"}, "verdict", "wrong"),
        (EXACT, {"pattern": "hook"}, "verdict", "wrong"),
    ],
)
def test_what_is_wrong_or_missing_is_told_apart(claim: Claim, changes: dict, matter: str, expected: str) -> None:
    judgement = judged(verdict(**changes), claim=claim)
    assert getattr(judgement, matter) == expected
    assert not judgement.is_right


@pytest.mark.parametrize("changes", [{"found_by": "steps"}, {"ended": 10}, {"steps": 41}])
def test_other_epochs_than_those_of_the_header_are_wrong(changes: dict) -> None:
    judgement = judged(verdict(), claim=EXACT, **changes)
    assert judgement.epochs.startswith("wrong (")
    assert not judgement.is_right


def test_advice_for_no_known_pattern_is_no_remedy() -> None:
    unknown = verdict(pattern="unknown", advice="let it go")
    assert judged(unknown).remedy == "-"
    assert judged(unknown, claim=LEAKING._replace(verdict="leak, unknown")).remedy == "wrong"


@pytest.mark.parametrize("changes", [{"line": 8}, {"file": "/somewhere/other.py"}, {"file": None, "line": None}])
def test_innocent_line_is_accused(changes: dict) -> None:
    judgement = judged(verdict(), verdict(**changes))
    assert (judgement.line, len(judgement.accused), judgement.is_right) == ("right", 1, False)
    assert not judged(verdict(**changes), claim=INNOCENT).is_right
    assert not judged(verdict(material=False), claim=INNOCENT._replace(like="hook")).is_right


def test_line_is_wrong_where_an_innocent_one_comes_first() -> None:
    assert judged(verdict(line=8), verdict()).line == "wrong"


@pytest.mark.parametrize("run", [Run(1, "Traceback", {"verdicts": []}), Run(0, "", None)])
def test_program_that_fails_says_nothing_of_reports(run: Run) -> None:
    with pytest.raises(RuntimeError, match=r"train\.py ended with status"):
        claims.judge(LEAKING, run)


LEAK = "# LEAK: something\n# HOLDER: kept\n"


@pytest.mark.parametrize(
    "source",
    [
        "import torch\n",
        f"{LEAK}# REMEDY: .cpu()\n",
        f"{LEAK}make()  # leak\n",
        "# HEALTHY: nothing\nmake()  # leak\n",
        "# HEALTHY: nothing\n# HOLDER: kept\n",
        "# HEALTHY: nothing\n# VERDICT: leak, unknown\n",
        "# HOLDER: kept\n# LEAK: something\n# REMEDY: .cpu()\nmake()  # leak\n",
        f"{LEAK}# REMEDY: .cpu()\n# LINE: not known\nmake()  # leak\n",
        f"{LEAK}# REMEDY: .cpu()\n# THROUGH: x\nmake()  # leak\n",
        f"{LEAK}# REMEDY: .cpu()\n# LIKE: hook\nmake()  # leak\n",
    ],
)
def test_header_that_does_not_say_what_is_so_is_refused(source: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(claims, "PROGRAMS", tmp_path)
    (tmp_path / "program.py").write_text(source)
    with pytest.raises(claims.BadHeader, match=r"program\.py"):
        claims.read("program")


def test_header_and_marks_are_read_to_the_first_line_of_code(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(claims, "PROGRAMS", tmp_path)
    header = "# LEAK: two\n# HELD: list 'a'\n# THROUGH: b\n# VERDICT: leak, hook\n# REMEDY: x\n# MODULE: part.py\n"
    (tmp_path / "program.py").write_text(f"{header}a = []  # holder\nmake()  # leak\n# HOLDER: c\n")
    (tmp_path / "part.py").write_text("make()  # leak\n")
    claim = claims.read("program")
    assert (claim.lines, claim.holder_lines) == ({("program.py", 8), ("part.py", 1)}, {("program.py", 7)})
    assert (claim.held, claim.holders, claim.verdict) == (("list 'a'", "b"), (), "leak, hook")
