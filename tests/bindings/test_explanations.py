"""What explains an out-of-memory error leaves the program as it was; and what reports have of the error.

What errors say, tests/out_of_memory has: programs that run into them.
"""

from __future__ import annotations

import contextlib
import gc
import json
import re
import signal
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from binding_helpers import MIB, collect, empty, failure
from frugal_alloc import _native
from frugal_alloc._report import files


def test_nothing_is_kept_alive_and_deleting_frees() -> None:
    gone = []

    def fail() -> None:
        local = empty(10 * MIB)
        gone.append(weakref.ref(local))
        before = torch.cuda.memory_allocated()
        with contextlib.suppress(torch.OutOfMemoryError):
            empty(1 << 44)
        del local
        assert torch.cuda.memory_allocated() == before - 10 * MIB
        assert gone[0]() is None

    without_garbage_collection(fail)


def test_what_an_error_has_kept_goes_with_the_error() -> None:
    def refuse(local: torch.Tensor) -> None:
        raise ValueError(local.shape)

    def fail() -> None:
        before = torch.cuda.memory_allocated()
        errors = []
        try:
            refuse(empty(10 * MIB))
        except ValueError as error:
            errors.append(error)
            with contextlib.suppress(torch.OutOfMemoryError):
                empty(1 << 44)
        assert torch.cuda.memory_allocated() == before + 10 * MIB
        errors.clear()
        assert torch.cuda.memory_allocated() == before

    without_garbage_collection(fail)


def without_garbage_collection(call: Callable[[], None]) -> None:
    # Running out of memory has garbage collected; what the tests before have left must not count.
    collect()
    gc.disable()
    try:
        call()
    finally:
        gc.enable()


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("place", ["frugal_alloc._out_of_memory.situation._pieces", "gc.collect"])
def test_what_a_signal_handler_raises_meanwhile_follows_the_error(place: str, monkeypatch: Any) -> None:
    """The library calls us, and nothing can be raised through it: until then the error is as without us."""

    def interrupt(number: int, frame: Any) -> None:
        raise Interrupted

    monkeypatch.setattr(place, lambda *_: signal.raise_signal(signal.SIGUSR1))
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupted) as raised:
            try:
                empty(1 << 44)
            except torch.OutOfMemoryError:
                for _ in range(1000):
                    pass
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert isinstance(raised.value.__context__, torch.OutOfMemoryError)


def test_modes_of_the_program_see_nothing() -> None:
    seen = []

    class Watching(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    held = empty(10 * MIB)
    with Watching():
        failure(torch.empty, 1 << 44, device="cuda")
    # What empty() calls itself, and the traceback's cleaning up.
    assert len(seen) <= 2, seen
    del held


# --- In reports.


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
