"""What counts as right of a program's report, and what a header has to say."""

from __future__ import annotations

import claims
import pytest
from claims import Claim
from program_runs import Run

LEAKING = Claim("train", "LEAK", "", frozenset({("train.py", 7)}), ("kept", "model"), (".cpu()",), "none")
INNOCENT = Claim("train", "HEALTHY", "", frozenset(), (), (), "none")


def verdict(**changes) -> dict:
    row = {"file": "/somewhere/train.py", "line": 7, "kind": "leak", "material": True, "pattern": "outputs_kept"}
    return row | {"held_by": [{"what": "list 'kept'"}], "advice": "store .cpu()"} | changes


def judged(*verdicts: dict, claim: Claim = LEAKING) -> claims.Judgement:
    return claims.judge(claim, Run(0, "", {"verdicts": list(verdicts)}))


def test_leak_that_is_told_as_it_is_is_right():
    judgement = judged(verdict())
    assert (judgement.line, judgement.holder, judgement.remedy, judgement.accused) == ("right", "right", "right", ())
    assert judgement.is_right


@pytest.mark.parametrize(
    ("changes", "matter", "found"),
    [
        ({"held_by": [{"what": "tensor 'out'"}]}, "holder", "wrong"),
        ({"held_by": [{"what": "list 'kept_too'"}]}, "holder", "wrong"),
        ({"held_by": []}, "holder", "missing"),
        ({"advice": "store loss.item()"}, "remedy", "wrong"),
        ({"material": False}, "line", "missing"),
    ],
)
def test_what_is_wrong_or_missing_is_told_apart(changes, matter, found):
    judgement = judged(verdict(**changes))
    assert getattr(judgement, matter) == found
    assert not judgement.is_right


def test_holder_that_is_not_known_may_be_the_truth():
    claim = LEAKING._replace(holders=(claims.NOT_KNOWN,))
    assert judged(verdict(held_by=[]), claim=claim).holder == "right"
    assert judged(verdict(), claim=claim).holder == "wrong"


def test_advice_for_no_known_pattern_is_no_remedy():
    assert judged(verdict(pattern="unknown", advice="let it go")).remedy == "-"


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
        "# HOLDER: kept\n# LEAK: something\n# REMEDY: .cpu()\nmake()  # leak\n",
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


def test_corpus_has_leaks_and_innocent_programs_enough_to_tell_nine_of_ten():
    kinds = [claims.read(name).kind for name in claims.all_names()]
    assert kinds.count("LEAK") >= 25
    assert kinds.count("HEALTHY") + kinds.count("MEANT") >= 15
