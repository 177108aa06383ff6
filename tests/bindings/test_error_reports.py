"""An out-of-memory error is in the reports after it, and has a report of its own."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import frugal_alloc
import pytest
from binding_helpers import empty
from frugal_alloc import _native
from frugal_alloc._report import files
from out_of_memory_messages import failure


def test_error_is_in_every_report_after_it_also_where_it_was_caught() -> None:
    failure(empty, 1 << 44)
    document = frugal_alloc.report().document
    error = document["oom"]
    assert (error["verdict"], error["requested_bytes"], error["gpu"]) == ("too_big", 1 << 44, 0)
    assert error["message"].startswith("CUDA out of memory. Tried to allocate 16384.00 GiB. GPU 0 has ")
    frames = [document["frames"][number] for number in error["stack"]]
    assert frames[0]["function"] == error["function"] == "empty"
    assert error["advice"]
    json.dumps(document)


@pytest.fixture
def report_dir() -> Any:
    """Sets the folder for reports, for the test."""
    library = _native.load()
    before = library.setting("report_dir")
    yield lambda folder: library.enable(f"report_dir:{folder}")
    library.enable(f"report_dir:{before or 'off'}")


def test_report_lands_in_its_folder_and_the_last_line_says_where(report_dir: Any, tmp_path: Path) -> None:
    report_dir(tmp_path / "reports")
    for size in (1 << 43, 1 << 44):
        text = failure(empty, size)
    path = Path(re.match(r"Report: (.+)", text.splitlines()[-1])[1])
    assert path.parent == tmp_path / "reports"
    # One error after another, as in a search for a batch size, leaves one report: the latest.
    assert {file.stem for file in path.parent.iterdir()} == {path.stem}
    document = json.loads(path.with_suffix(".json").read_text())
    assert document["oom"]["requested_bytes"] == 1 << 44


def test_report_is_not_written_where_it_is_off(report_dir: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    report_dir("off")
    text = failure(empty, 1 << 44)
    assert "Report:" not in text
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_written_is_replaced_by_a_temporary_one(
    report_dir: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(files, "_private", None)
    file = tmp_path / "file"
    file.write_text("")
    report_dir(file)
    text = failure(empty, 1 << 44)
    path = Path(re.match(r"Report: (.+)", text.splitlines()[-1])[1])
    assert path.exists() and path.parent.parent == tmp_path
