"""tools/odd_surroundings makes the surroundings that it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "odd_surroundings"
# Not below tests/, so that nothing resets what a session starts from.
LOOK = """
import json, os, signal, sys
from pathlib import Path

def test_look():
    mask = os.umask(0)
    above = Path({tool!r}).parents[2]
    found = dict(
        umask=mask, user=os.geteuid(), folder=os.getcwd(), above=oct(above.stat().st_mode)[-3:],
        ignored=signal.getsignal(signal.SIGINT) == signal.SIG_IGN, environment=dict(os.environ),
        readable=os.read(0, 1).decode(),
    )
    print("FOUND", json.dumps(found), file=sys.__stdout__, flush=True)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that anybody may enter, unless the folder for temporary files is closed itself."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        yield Path(made)


def found_in(name: str, folder: Path) -> dict[str, Any]:
    path = folder / "test_look.py"
    path.write_text(LOOK.format(tool=str(TOOL)))
    path.chmod(0o644)
    line = [TOOL, "--in", name, "-s", path]
    done = subprocess.run(line, capture_output=True, text=True, input="read me", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = (line.partition("FOUND ")[2] for line in done.stdout.splitlines() if "FOUND " in line)
    return json.loads(found)


def works(*command: str | Path) -> bool:
    return subprocess.run([*map(str, command)], capture_output=True, cwd="/").returncode == 0


def test_in_the_background_interrupts_are_ignored_and_files_are_private(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    found = found_in("background", folder)
    assert (found["ignored"], found["umask"], found["readable"]) == (True, 0o077, "")
    assert (found["environment"]["LC_ALL"], found["environment"]["TZ"]) == ("C", "Pacific/Chatham")
    assert "PYTHONUNBUFFERED" not in found["environment"]


def test_another_user_starts_in_another_folder(folder: Path) -> None:
    stranger = ["setpriv", "--reuid", "54321", "--clear-groups"]
    if (
        os.geteuid() != 0
        or not works(*stranger, sys.executable, "-c", "import pytest, frugal_alloc")
        or not works(*stranger, "ls", folder)
    ):
        pytest.skip("needs root, and folders that others may enter")
    found = found_in("user", folder)
    assert (found["user"], found["folder"]) == (54321, "/")


def test_nobody_else_may_enter_the_folder_above_a_closed_checkout(folder: Path) -> None:
    if os.geteuid() != 0 or not works("unshare", "--mount", "true") or TOOL.parents[2] in folder.parents:
        pytest.skip("needs root that may mount, and temporary files elsewhere")
    found = found_in("closed", folder)
    assert (found["above"], found["folder"]) == ("700", str(TOOL.parents[1]))


def test_surroundings_that_do_not_exist_are_refused_in_one_line() -> None:
    done = subprocess.run([TOOL, "--in", "space"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tools/odd_surroundings: --in takes user, closed or background\n"
