"""Programs that run out of memory: what the error says is so, and what it advises is enough."""

from __future__ import annotations

import re
from pathlib import Path

import error_claims
import pytest
from frugal_alloc._out_of_memory import ownership
from running import error_of, run, write


@pytest.mark.parametrize("file", error_claims.all_files(), ids=lambda file: file.stem)
def test_error_says_what_is_so_and_its_advice_is_enough(file: Path, tmp_path: Path) -> None:
    claim = error_claims.read(file)
    if not ownership.can_walk():  # this torch does not tell what autograd has saved
        claim = claim._replace(advice=())
    said = set()
    for room in claim.rooms:
        program = write(tmp_path / str(room) / file.name, file.read_text())
        error = error_of(program, room)
        assert error_claims.shortcomings(claim, error) == [], f"{room} MiB, {claim.about}:\n{error['message']}"
        for advice, told in error_claims.told(claim, error):
            said.add(advice)
            assert_is_enough(advice, told, program, room)
    assert [advice.said.pattern for advice in claim.advice if advice not in said] == [], "no error says it"


def assert_is_enough(advice: error_claims.Advice, told: re.Match[str], program: Path, room: int) -> None:
    for name, edits in (("fits", advice.fits_after), ("fails", advice.fails_after)):
        if edits:
            source = error_claims.edited(program.read_text(), edits, told)
            done = run(write(program.parent / "after" / program.name, source), room)
            assert (done.returncode == 0) == (name == "fits"), f"{room} MiB, {told.string}:\n{done.stdout}{done.stderr}"
