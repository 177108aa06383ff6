"""First advice, carried out: in programs that nobody tunes it to, as many fit as when they were last counted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import first_advice
import pytest

COUNTED = Path(__file__).resolve().parent / "kept_back" / "counted.json"


@pytest.mark.skipif(os.environ.get("FRUGAL_TEST_ALL") != "1", reason="80 programs: tools/test --all")
def test_first_advice_helps_in_as_many_programs_as_counted(tmp_path: Path) -> None:
    outcomes = [first_advice.outcome(file, tmp_path / file.stem) for file in sorted(first_advice.PROGRAMS.glob("*.py"))]
    found = first_advice.counts(outcomes)
    least = json.loads(COUNTED.read_text())
    assert found["batch too large"][0] <= least.pop("batch too large"), outcomes
    worse = {name: (found[name], count) for name, count in least.items() if found[name][0] < count}
    assert worse == {}, "\n".join(map(str, outcomes))
