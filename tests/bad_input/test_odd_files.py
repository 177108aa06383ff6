"""What has the name of a file may be anything: a folder, a pipe nobody writes to, a device, a link to itself."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frugal_alloc
import pytest
import report_samples as samples
from frugal_alloc._tracking import declarations

ODD: dict[str, Callable[[Path], Any]] = {
    "nothing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a pipe that nobody writes to": lambda path: os.mkfifo(path),
    # Not by bind(), which takes a path of 107 bytes at most.
    "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
    "a link to a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to an empty device": lambda path: path.symlink_to("/dev/null"),
    "a link to a file without end": lambda path: path.symlink_to("/proc/self/mem"),
    "a file in a file": Path.touch,
}
NAMES = {
    "plain": "given",
    "of two lines": "a\nfrugal-alloc report: all is well",
    "that steers the terminal": "\x1b[2J\x1b]0;owned\x07",
    "read backwards": "\u202egnp.exe",
    "that is no text": os.fsdecode(b"\xff\xfe\x80"),
    "too long": "x" * 300,
}


@pytest.fixture(params=ODD)
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "given"
    ODD[request.param](path)
    return path / "inside" if request.param == "a file in a file" else path


def test_it_is_neither_a_report_nor_a_history_nor_a_list_of_suppressions(
    odd: Path, command: Any, tmp_path: Path
) -> None:
    good = tmp_path / "good.json"
    good.write_text(json.dumps(samples.healthy()))
    for words in (["report", odd], ["report", good, "--compare", odd], ["replay", odd]):
        outcome = command(*words)
        outcome.assert_refused(" ".join(map(str, words)))
        assert str(odd) in outcome.err
    with pytest.raises(frugal_alloc.FrugalAllocError) as refused:
        declarations.read_suppressions(str(odd))
    assert str(odd) in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", NAMES)
def test_a_file_of_any_name_is_shown_or_refused(kind: str, command: Any, tmp_path: Path) -> None:
    path = tmp_path / NAMES[kind]
    for state in ("missing", "bad"):
        for subcommand in ("report", "replay"):
            command(subcommand, path).assert_refused(f"{subcommand}: {state}, a name {kind}")
        if kind == "too long":
            return
        path.write_bytes(b"no report")
    path.write_text(json.dumps(samples.healthy()))
    assert command("report", path).status == 0


# Root may read anything, so it becomes a user who may read hardly anything. That user may not even find the package,
# where it lies in somebody's home: so what the command imports for good files and missing ones is imported before.
_AS_NOBODY = """
import contextlib, io, os, sys
from frugal_alloc._command import cli
command, good, path = sys.argv[1:]
for first in (good, "absent"):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):
            cli.main([command, first])
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
cli.main([command, path])
"""


@pytest.mark.parametrize("path", ["private.json", "closed/report.json"])
@pytest.mark.parametrize("subcommand", ["report", "replay"])
def test_a_file_that_may_not_be_read_is_refused(subcommand: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    for name in ("good.json", "private.json", "closed/report.json"):
        (tmp_path / name).write_text(json.dumps(samples.healthy()))
    (tmp_path / "private.json").chmod(0)
    (tmp_path / "closed").chmod(0)
    # The folders above may be closed to others, too: so the names are relative.
    tmp_path.chmod(0o755)
    line = [sys.executable, "-c", _AS_NOBODY, subcommand, "good.json", path]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    (tmp_path / "closed").chmod(0o700)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert "Permission denied" in done.stderr
