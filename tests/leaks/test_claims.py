"""What counts as right of a program's report, and what a header has to say."""

from __future__ import annotations

import re
from pathlib import Path

import claims
import frugal_alloc
import pytest
from claims import Claim
from program_runs import Run

LEAKING = Claim("train", "LEAK", "", frozenset({("train.py", 7)}), ("kept", "model"), (".cpu()",), "none")
INNOCENT = Claim("train", "HEALTHY", "", frozenset(), (), (), "none")


EXACT = LEAKING._replace(
    holders=(),
    held=("list 'kept'", "tensor 'x' of Box"),
    holder_lines=frozenset({("train.py", 3)}),
    verdict="leak, outputs_kept",
    epochs="data_loader, 9 ended, 40 steps",
)


def holder(**changes) -> dict:
    row = {"what": "list 'kept'", "through": "tensor 'x' of Box", "share": 1.0}
    return row | {"file": "/somewhere/train.py", "line": 3} | changes


def verdict(**changes) -> dict:
    row = {"file": "/somewhere/train.py", "line": 7, "kind": "leak", "material": True, "pattern": "outputs_kept"}
    return row | {"held_by": [holder()], "advice": "store .cpu()"} | changes


def judged(*verdicts: dict, claim: Claim = LEAKING, **epochs) -> claims.Judgement:
    epochs = {"found_by": "data_loader", "ended": 9, "steps": 40} | epochs
    return claims.judge(claim, Run(0, "", {"verdicts": list(verdicts), "epochs": epochs}))


def test_leak_that_is_told_as_it_is_is_right():
    judgement = judged(verdict())
    assert (judgement.line, judgement.holder, judgement.remedy, judgement.accused) == ("right", "right", "right", ())
    assert judgement.is_right


@pytest.mark.parametrize(
    ("changes", "matter", "found"),
    [
        ({"held_by": [holder(what="tensor 'out'")]}, "holder", "wrong"),
        ({"held_by": [holder(what="list 'kept_too'")]}, "holder", "wrong"),
        ({"held_by": []}, "holder", "missing"),
        ({"advice": "store loss.item()"}, "remedy", "wrong"),
        ({"material": False}, "line", "missing"),
    ],
)
def test_what_is_wrong_or_missing_is_told_apart(changes, matter, found):
    judgement = judged(verdict(**changes))
    assert getattr(judgement, matter) == found
    assert not judgement.is_right


def test_what_an_exact_header_says_is_right() -> None:
    assert judged(verdict(), claim=EXACT).is_right


@pytest.mark.parametrize(
    ("changes", "matter"),
    [
        ({"held_by": [holder(what="list 'kept' of Box")]}, "holder"),
        ({"held_by": [holder(through="")]}, "holder"),
        ({"held_by": [holder(share=0.99)]}, "holder"),
        ({"held_by": [holder(), holder(what="list 'other'")]}, "holder"),
        ({"held_by": [holder(line=4)]}, "holder"),
        ({"kind": "growing"}, "verdict"),
        ({"pattern": "hook"}, "verdict"),
    ],
)
def test_what_is_not_word_by_word_as_an_exact_header_says_is_wrong(changes, matter) -> None:
    judgement = judged(verdict(**changes), claim=EXACT)
    assert getattr(judgement, matter) == "wrong"
    assert not judgement.is_right


@pytest.mark.parametrize("changes", [{"found_by": "steps"}, {"ended": 10}, {"steps": 41}])
@pytest.mark.parametrize("claim", [EXACT, INNOCENT._replace(epochs=EXACT.epochs)])
def test_other_epochs_than_those_of_the_header_are_wrong(claim, changes) -> None:
    rows = [verdict()] if claim.kind == "LEAK" else []
    assert judged(*rows, claim=claim).epochs == "right"
    judgement = judged(*rows, claim=claim, **changes)
    assert judgement.epochs.startswith("wrong (")
    assert not judgement.is_right


def test_line_that_is_not_known_may_be_the_truth() -> None:
    claim = LEAKING._replace(lines=claims.NO_LINE)
    assert judged(verdict(file=None, line=None), claim=claim).line == "right"
    assert judged(verdict(), claim=claim).line == "missing"


def test_holder_that_is_not_known_may_be_the_truth():
    claim = LEAKING._replace(holders=(claims.NOT_KNOWN,))
    assert judged(verdict(held_by=[]), claim=claim).holder == "right"
    assert judged(verdict(), claim=claim).holder == "wrong"


def test_advice_for_no_known_pattern_is_no_remedy():
    unknown = verdict(pattern="unknown", advice="let it go")
    assert judged(unknown).remedy == "-"
    assert judged(unknown, claim=LEAKING._replace(verdict="leak, unknown")).remedy == "wrong"


@pytest.mark.parametrize("changes", [{"line": 8}, {"file": "/somewhere/other.py"}, {"file": None, "line": None}])
def test_innocent_line_is_accused(changes):
    judgement = judged(verdict(), verdict(**changes))
    assert judgement.line == "right"
    assert len(judgement.accused) == 1
    assert not judgement.is_right


def test_line_is_wrong_where_an_innocent_one_comes_first():
    assert judged(verdict(line=8), verdict()).line == "wrong"


@pytest.mark.parametrize("kind", ["HEALTHY", "MEANT"])
def test_program_that_does_not_leak_is_right_where_nothing_is_told(kind):
    claim = INNOCENT._replace(kind=kind)
    assert judged(claim=claim).is_right
    assert judged(verdict(material=False), claim=claim).is_right
    assert not judged(verdict(), claim=claim).is_right
    assert not judged(verdict(material=False), claim=claim._replace(like="hook")).is_right


@pytest.mark.parametrize("run", [Run(1, "Traceback", {"verdicts": []}), Run(0, "", None)])
def test_program_that_fails_says_nothing_of_reports(run):
    with pytest.raises(RuntimeError, match=r"train\.py ended with status"):
        claims.judge(LEAKING, run)


@pytest.mark.parametrize(
    "source",
    [
        "import torch\n",
        "# LEAK: something\n# HOLDER: kept\n# REMEDY: .cpu()\n",
        "# LEAK: something\n# HOLDER: kept\nmake()  # leak\n",
        "# HEALTHY: nothing\nmake()  # leak\n",
        "# HEALTHY: nothing\n# HOLDER: kept\n",
        "# HEALTHY: nothing\n# VERDICT: leak, unknown\n",
        "# HOLDER: kept\n# LEAK: something\n# REMEDY: .cpu()\nmake()  # leak\n",
        "# LEAK: something\n# HOLDER: kept\n# REMEDY: .cpu()\n# LINE: not known\nmake()  # leak\n",
        "# LEAK: something\n# HOLDER: kept\n# REMEDY: .cpu()\n# THROUGH: x\nmake()  # leak\n",
        "# LEAK: something\n# HOLDER: kept\n# REMEDY: .cpu()\n# LIKE: hook\nmake()  # leak\n",
    ],
)
def test_header_that_does_not_say_what_is_so_is_refused(source, tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "PROGRAMS", tmp_path)
    (tmp_path / "program.py").write_text(source)
    with pytest.raises(claims.BadHeader, match=r"program\.py"):
        claims.read("program")


def test_header_of_a_leak_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "PROGRAMS", tmp_path)
    header = "# LEAK: two\n# HOLDER: a | b\n# REMEDY: x\n# MODULE: part.py\n# VALUES: cpu\n"
    (tmp_path / "program.py").write_text(f"{header}\nmake()  # leak\n# HOLDER: c\nmake()  # leak\n")
    (tmp_path / "part.py").write_text("make()  # leak\n")
    lines = frozenset({("program.py", 7), ("program.py", 9), ("part.py", 1)})
    assert claims.read("program") == Claim("program", "LEAK", "two", lines, ("a", "b"), ("x",), "cpu")


def test_header_that_says_more_is_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(claims, "PROGRAMS", tmp_path)
    header = "# LEAK: x\n# HELD: list 'a'\n# THROUGH: b\n# VERDICT: leak, hook\n# EPOCHS: e\n# REMEDY: r\n"
    (tmp_path / "program.py").write_text(f"{header}a = []  # holder\nmake()  # leak\n")
    claim = claims.read("program")
    assert (claim.held, claim.holder_lines) == (("list 'a'", "b"), {("program.py", 7)})
    assert (claim.verdict, claim.epochs, claim.lines) == ("leak, hook", "e", {("program.py", 8)})
    (tmp_path / "other.py").write_text("# LEAK: x\n# LINE: not known\n# HOLDER: a\n# REMEDY: r\n")
    assert claims.read("other").lines == claims.NO_LINE
    (tmp_path / "innocent.py").write_text("# HEALTHY: x\n# LIKE: hook\n")
    assert claims.read("innocent").like == "hook"


def patterns() -> set[str]:
    """Of leaks, by the source of the rules."""
    names = set()
    for file in ("patterns.py", "verdicts.py"):
        source = (Path(frugal_alloc.__file__).parent / "_tracking" / file).read_text()
        rules = re.findall(r'\bPattern\(\s*"(\w+)"(.*)', source)
        names |= {name for name, rest in rules if "is_benign" not in rest}
        names |= {name for row in re.findall(r'"pattern": "(\w+)" if .* else "(\w+)"', source) for name in row}
    return names


def test_each_pattern_has_a_leak_and_a_program_that_looks_like_it_among_some() -> None:
    some = [claims.read(name) for name in claims.some_names()]
    assert len(patterns()) >= 18
    assert {claim.verdict.partition(", ")[2] for claim in some if claim.verdict} == patterns()
    assert {claim.like for claim in some if claim.like} == patterns() - {"unknown"}


def test_some_programs_are_all_that_say_more_and_each_remedy() -> None:
    every = [claims.read(name) for name in claims.all_names()]
    some = [claim for claim in every if claim.name in claims.some_names()]
    assert {claim for claim in every if claim.held or claim.verdict or claim.like or claim.epochs} <= set(some)
    assert {word for claim in every for word in claim.remedies} == {word for claim in some for word in claim.remedies}


def test_corpus_has_leaks_and_innocent_programs_enough_to_tell_nine_of_ten():
    kinds = [claims.read(name).kind for name in claims.all_names()]
    assert kinds.count("LEAK") >= 25
    assert kinds.count("HEALTHY") + kinds.count("MEANT") >= 15
