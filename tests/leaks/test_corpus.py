"""Programs as people write them: the line, the holder and the remedy of a leak are right; the innocent are silent."""

from __future__ import annotations

import claims
import program_runs
import pytest

# What is known to fall short, and how. As run_programs.py --expectations prints it.
FALLS_SHORT: dict[str, str] = {}

# So many in one start of the simulated GPU, which costs as much as four of them.
CHUNK = 20


class Corpus:
    """The runs of those programs that this session is to judge, each made once."""

    def __init__(self, names: list[str]) -> None:
        self._left: dict[str, list[str]] = {}
        for name in names:
            self._left.setdefault(claims.read(name).values, []).append(name)
        self._runs: dict[str, program_runs.Run] = {}

    def run_of(self, claim: claims.Claim) -> program_runs.Run:
        if claim.name not in self._runs:
            left = self._left[claim.values]
            chunk = [claim.name, *[name for name in left if name != claim.name][: CHUNK - 1]]
            self._runs.update(program_runs.run(chunk, claim.values))
            self._left[claim.values] = [name for name in left if name not in chunk]
        return self._runs[claim.name]


@pytest.fixture(scope="module")
def corpus(request: pytest.FixtureRequest) -> Corpus:
    chosen = (item for item in request.session.items if item.path == request.path)
    return Corpus([item.callspec.params["name"] for item in chosen if hasattr(item, "callspec")])


def _parameters() -> list:
    marks = {name: pytest.mark.xfail(reason=reason, strict=True) for name, reason in FALLS_SHORT.items()}
    return [pytest.param(name, marks=marks.get(name, ())) for name in claims.all_names()]


@pytest.mark.parametrize("name", _parameters())
def test_report_says_what_is_so(name, corpus):
    claim = claims.read(name)
    judgement = claims.judge(claim, corpus.run_of(claim))
    assert judgement.is_right, f"{judgement.line=} {judgement.holder=} {judgement.remedy=} {judgement.accused=}\n" + (
        f"{claim.kind}: {claim.about}\ntold: {judgement.told}"
    )


def test_what_falls_short_is_a_program():
    assert set(FALLS_SHORT) <= set(claims.all_names())
