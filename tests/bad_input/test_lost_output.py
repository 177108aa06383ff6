"""Output that cannot be written: one line, status 2, and no file is left that is not whole."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frugal_alloc
import pytest
import report_samples as samples
from frugal_alloc._common import whole_files
from frugal_alloc._report import files

FULL = Path("/dev/full")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(samples.leaking()))
    return path


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "frugal_alloc", *map(str, arguments)]
    # Where files end midway, Python would keep the halves of our modules' bytecode, for all who import them after.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(line, stderr=subprocess.PIPE, text=True, timeout=600, env=environment, **options)


def assert_refused(done: subprocess.CompletedProcess) -> None:
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["report", "FILE"], ["report", "FILE", "--json"], ["--help"], ["report", "--help"], ["--version"], ["preload"]],
)
def test_standard_output_on_a_full_disk(arguments: list[str], report: Path) -> None:
    with FULL.open("w") as full:
        done = run(*(str(report) if word == "FILE" else word for word in arguments), stdout=full)
    assert_refused(done)
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("arguments", [["report", "FILE"], ["report", "FILE", "--json"], ["--help"], ["preload"]])
def test_standard_output_that_is_closed_or_that_nobody_reads(arguments: list[str], report: Path) -> None:
    words = [str(report) if word == "FILE" else word for word in arguments]
    closed = run(*words, preexec_fn=lambda: os.close(1))
    assert "Traceback" not in closed.stderr
    assert closed.returncode in (0, 2)
    reader, writer = os.pipe()
    os.close(reader)
    broken = run(*words, stdout=writer)
    os.close(writer)
    assert (broken.returncode, broken.stderr) == (0, "")


def small_files() -> None:
    """Writing more than 4 KiB to a file fails midway, as on a disk that becomes full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


@pytest.mark.parametrize("option", ["--html", "--memory-viz"])
@pytest.mark.parametrize("old", [None, "what was there before"])
def test_a_disk_that_becomes_full_leaves_what_was_there(option: str, old: str | None, report: Path) -> None:
    target = report.with_name("out")
    if old is not None:
        target.write_text(old)
    before = sorted(report.parent.iterdir())
    done = run("report", report, option, target, stdout=subprocess.PIPE, preexec_fn=small_files)
    assert_refused(done)
    assert str(target) in done.stderr
    assert sorted(report.parent.iterdir()) == before
    if old is not None:
        assert target.read_text() == old


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: folder / "missing" / "page.html",
        lambda folder: folder,
        lambda folder: Path("/proc/page.html"),
        lambda folder: folder / ("x" * 300),
        lambda folder: FULL,
    ],
    ids=["no such folder", "a folder", "a read-only folder", "a name too long", "a full device"],
)
@pytest.mark.parametrize("option", ["--html", "--memory-viz"])
def test_a_place_where_nothing_can_be_written(
    option: str, make: Callable[[Path], Path], report: Path, command: Any
) -> None:
    before = sorted(report.parent.iterdir())
    command("report", report, option, make(report.parent)).assert_refused(option)
    assert sorted(report.parent.iterdir()) == before
    assert stat.S_ISCHR(FULL.stat().st_mode), "a device must not become a file"


def test_what_is_no_file_is_written_to_and_stays_what_it_is(report: Path) -> None:
    done = run("report", report, "--html", "/dev/stdout", stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stdout.endswith("</html>\n")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert run("report", report, "--html", "/dev/null", stdout=subprocess.PIPE).returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_goes_on_naming_its_file_which_keeps_its_permissions(tmp_path: Path) -> None:
    target, link = tmp_path / "target.html", tmp_path / "link.html"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    files.write_bytes(str(link), b"new")
    assert (link.is_symlink(), target.read_text(), stat.S_IMODE(target.stat().st_mode)) == (True, "new", 0o600)


def test_a_file_that_somebody_else_made_is_not_written_through(tmp_path: Path, monkeypatch: Any) -> None:
    """In a folder for everybody, a link of the temporary name would have us overwrite another file."""
    victim, target = tmp_path / "victim", tmp_path / "page.html"
    victim.write_text("precious")
    monkeypatch.setattr(whole_files.secrets, "token_hex", lambda count: "guessed")
    (tmp_path / "page.html.guessed.tmp").symlink_to(victim)
    with pytest.raises(OSError):
        files.write_bytes(str(target), b"page")
    assert victim.read_text() == "precious"


def test_an_interruption_leaves_no_part_of_a_file(tmp_path: Path, monkeypatch: Any) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(whole_files.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_bytes(str(tmp_path / "page.html"), b"page")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["/proc/frugal", "/dev/null/frugal", "\0", "x" * 300])
def test_a_report_folder_that_cannot_be_is_said_in_one_line(folder: str) -> None:
    document = samples.healthy()
    with pytest.raises(frugal_alloc.FrugalAllocError) as refused:
        files.write(document, folder)
    assert "\n" not in str(refused.value)
