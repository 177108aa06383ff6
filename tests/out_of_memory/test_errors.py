"""Programs that run out of memory: what the error says is so, and what it advises is enough."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import error_claims
import fork_server
import pytest
from frugal_alloc._out_of_memory import ownership
from frugal_alloc._simulation import simulated_gpu

HERE = Path(__file__).resolve().parent
# Beside the package, what stands for other people's packages in the programs, and their own other files.
PATHS = (fork_server.BINDINGS, HERE / "libraries" / "site-packages", error_claims.PROGRAMS)
MEMORY = 16 << 30
# Sizes do not depend on what tensors hold.
NO_CONTENTS = {"FRUGAL_SIM_KEEP": "1MiB"}


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


def run(program: Path, room: int) -> subprocess.CompletedProcess[str]:
    base = os.environ | NO_CONTENTS | {"PYTHONPATH": os.pathsep.join(map(str, PATHS))}
    command = [sys.executable, HERE / "in_room.py", str(room), program]
    return fork_server.run(command, env=simulated_gpu.environment(MEMORY, base=base), cwd=program.parent)


def error_of(program: Path, room: int) -> dict[str, Any]:
    """What the report has of the error that the program runs into."""
    done = run(program, room)
    (file,) = program.parent.glob("frugal-*.json")
    error = json.loads(file.read_text())["oom"]
    # The library goes on after PyTorch's sentence, which searches for it find.
    assert done.returncode == 0 or all(part in done.stderr for part in error["message"].split("\n", 1)), done.stderr
    return error


def write(path: Path, source: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return path
