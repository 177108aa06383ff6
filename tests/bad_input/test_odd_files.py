"""What has the name of a file may be anything: a folder, a pipe nobody writes to, a device, a link to itself."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import frugal_alloc
import pytest
import report_samples as samples
from frugal_alloc._tracking import suppressions

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


def test_it_is_no_report(odd: Path, command: Any, tmp_path: Path) -> None:
    command("report", odd).assert_refused("report")
    good = tmp_path / "good.json"
    good.write_text(json.dumps(samples.healthy()))
    outcome = command("report", good, "--compare", odd)
    outcome.assert_refused("--compare")
    assert str(odd) in outcome.err


def test_it_is_no_history(odd: Path, command: Any) -> None:
    outcome = command("replay", odd)
    outcome.assert_refused("replay")
    assert str(odd) in outcome.err


def test_it_is_no_list_of_suppressions(odd: Path) -> None:
    with pytest.raises(frugal_alloc.FrugalAllocError) as refused:
        suppressions.read(str(odd))
    assert "\n" not in str(refused.value)
    assert str(odd) in str(refused.value)


@pytest.mark.parametrize("kind", NAMES)
def test_a_missing_file_of_any_name_is_refused(kind: str, command: Any, tmp_path: Path) -> None:
    for subcommand in ("report", "replay"):
        command(subcommand, tmp_path / NAMES[kind]).assert_refused(f"{subcommand}: a name {kind}")


@pytest.mark.parametrize("kind", [kind for kind in NAMES if kind != "too long"])
def test_a_bad_file_of_any_name_is_refused(kind: str, command: Any, tmp_path: Path) -> None:
    path = tmp_path / NAMES[kind]
    path.write_bytes(b"no report")
    for subcommand in ("report", "replay"):
        command(subcommand, path).assert_refused(f"{subcommand}: a name {kind}")


def test_a_good_file_of_any_name_is_shown(command: Any, tmp_path: Path) -> None:
    for kind, name in NAMES.items():
        if kind != "too long":
            (tmp_path / name).write_text(json.dumps(samples.healthy()))
            assert command("report", tmp_path / name).status == 0, kind


@pytest.fixture
def as_nobody(tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess]]:
    """Runs the command as a user who may read hardly anything, which root may always."""
    user = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}

    def run(*arguments: Any) -> subprocess.CompletedProcess:
        line = [sys.executable, "-m", "frugal_alloc", *map(str, arguments)]
        return subprocess.run(line, capture_output=True, text=True, timeout=600, cwd="/", **user)

    probe = subprocess.run([sys.executable, "-c", "import frugal_alloc"], capture_output=True, cwd="/", **user)
    if probe.returncode != 0:
        pytest.skip("another user cannot start this Python")
    yield run


def test_a_file_that_may_not_be_read_is_refused(as_nobody: Any, tmp_path: Path) -> None:
    path = tmp_path / "private.json"
    path.write_text(json.dumps(samples.healthy()))
    path.chmod(0)
    for subcommand in ("report", "replay"):
        done = as_nobody(subcommand, path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
        assert "Permission denied" in done.stderr or "does not exist" in done.stderr
