"""Programs as people write them: the line, the holder and the remedy of a leak are right; the innocent are silent.

Some of them; all with FRUGAL_TEST_ALL=1. Among some are a leak of each pattern, and a program that only looks like one.
"""

from __future__ import annotations

import os

import claims
import program_runs
import pytest
from run_programs import shortcoming

# What is known to fall short, and how. As run_programs.py --expectations prints it.
FALLS_SHORT: dict[str, str] = {}


def _parameters() -> list:
    marks = {name: pytest.mark.xfail(reason=reason, strict=True) for name, reason in FALLS_SHORT.items()}
    names = claims.all_names() if os.environ.get("FRUGAL_TEST_ALL") == "1" else claims.some_names()
    return [pytest.param(name, marks=marks.get(name, ())) for name in names]


@pytest.mark.parametrize("name", _parameters())
def test_report_says_what_is_so(name):
    claim = claims.read(name)
    judgement = claims.judge(claim, program_runs.run(name, claim.values))
    text = f"{claim.kind}: {claim.about}\ntold: {judgement.told}"
    assert judgement.is_right, f"{shortcoming(judgement)}\n{text}"


def test_what_falls_short_is_a_program():
    assert set(FALLS_SHORT) <= set(claims.all_names())
