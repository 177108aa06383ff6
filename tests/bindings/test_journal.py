"""The journal tells of every block what PyTorch's own figures say, whichever allocator is PyTorch's."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from binding_helpers import run_python

HERE = Path(__file__).parent
ALLOCATORS = ("native", "expandable", "frugal", "frugal, later")


@functools.cache
def run(function: str, *arguments: str, allocator: str = "native") -> Any:
    """What a function of journal_program.py found in a process of its own."""
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        f"import journal_program\nreport(**journal_program.{function}(*{arguments!r}))"
    )
    settings = "expandable_segments:True" if allocator == "expandable" else None
    found = run_python(code, PYTORCH_ALLOC_CONF=settings, PYTORCH_CUDA_ALLOC_CONF=settings)
    assert found["status"] == 0, found["stderr"]
    return found


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_what_is_asked_for_and_reserved_adds_up_to_torchs_own_figures(allocator: str) -> None:
    found = run("work", allocator, allocator=allocator)
    assert found["peak"] == found["torch_peak"] > 0
    assert found["now"] == found["torch_now"]
    assert found["allocations"] == found["torch_allocations"] > 100
    assert (found["frugal_allocations"] > 0) == ("frugal" in allocator)
    assert found["gpus"] == [0]
    assert found["held"] == found["torch_held"] > 0
    assert found["given"] > 0


@pytest.mark.parametrize("allocator", ALLOCATORS[:3])
def test_sites_name_the_line_and_in_backward_that_of_the_forward(allocator: str) -> None:
    found = run("find_sites", allocator, allocator=allocator)
    assert found["forward"] == [["", ["double", 1], None]]
    assert ["SigmoidBackward0", ["", 0], ["double", 1]] in found["backward"]
    assert found["frees"] in ([], [0])


def test_marks_and_labels_stand_where_they_were_made_and_a_file_has_what_is_read(tmp_path: Path) -> None:
    found = run("mark_and_label", str(tmp_path / "journal"))
    # Mark, allocation, label, the free that was asked for and completed, two marks.
    assert found["kinds"] == [6, 0, 7, 1, 2, 6, 6]
    assert found["texts"] == ["a step", "parameter", "with  and \u00e9"]
    assert (found["numbers"], found["labelled"], found["gpus"]) == ([0, 1, 0, 2], [0], [-1] * 4)
    assert found["same"] and found["rest"]
    assert found["started_again"] is False
    assert "Not a directory" in found["error"] and "journal/none" in found["error"]


@pytest.mark.parametrize("allocator", ["native", "frugal"])
def test_every_threads_memory_is_there(allocator: str) -> None:
    found = run("use_threads", allocator)
    assert found["marks_in_order"]
    assert found["allocations"] == [50] * 4
    assert found["now"] == 0


def test_a_child_by_fork_begins_anew() -> None:
    found = run("fork")
    assert found["child"] == "0 True 1 ['heard']"
    assert found["texts"] == ["of the parent", "after the fork"]
    assert found["allocations"] == 1
