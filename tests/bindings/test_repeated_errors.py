"""Errors that a program catches: each is told, few are looked into, and a run that goes on has not failed."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from typing import Any

import frugal_alloc
import pytest
import torch
from binding_helpers import GIB, collect, empty, failure
from frugal_alloc._out_of_memory import situation
from frugal_alloc._report import latest_error
from frugal_alloc._report.headline import headline

TOO_MUCH = 1 << 44


@pytest.fixture
def looks(monkeypatch: Any) -> list[int]:
    """The requests of the errors that were looked into."""
    seen: list[int] = []
    look = situation.look

    def counted(facts: Any, library: Any) -> Any:
        seen.append(facts.requested_bytes)
        return look(facts, library)

    monkeypatch.setattr(situation, "look", counted)
    return seen


def texts_of(count: int, size: int = TOO_MUCH) -> list[str]:
    """The errors of one line that asks for too much again and again."""
    return [failure(empty, size + number) for number in range(count)]


def test_of_one_kind_the_first_second_fourth_and_eighth_are_looked_into(looks: list[int]) -> None:
    texts = texts_of(20)
    assert len(texts) == 20
    assert looks == [TOO_MUCH + number - 1 for number in (1, 2, 4, 8, 16)]


def test_what_is_only_counted_says_so_and_all_that_is_known(looks: list[int]) -> None:
    first, _, third = texts_of(3)
    assert "Repeated" not in first
    note = " ".join(third[third.index("Repeated") :].split())
    assert note.startswith("Repeated 3 errors like this so far"), third
    assert "found out at number 2; number 4 is looked into again" in note, third
    verdict = first.splitlines()[1]
    assert third.splitlines()[1] == verdict and "Change first" in third
    assert len(looks) == 2


def test_another_line_is_looked_into(looks: list[int]) -> None:
    texts_of(3)
    text = failure(torch.empty, TOO_MUCH, dtype=torch.uint8, device="cuda")
    assert len(looks) == 3
    assert "Repeated" not in text


def test_what_has_changed_is_looked_into(looks: list[int]) -> None:
    """Another size, and another amount of memory in use."""
    held = None
    for size, in_use in ((TOO_MUCH, 0), (TOO_MUCH, 0), (8 * TOO_MUCH, 0), (TOO_MUCH, 0), (TOO_MUCH, 4 * GIB)):
        held = empty(in_use) if in_use else None
        failure(empty, size)
    del held
    assert looks == [TOO_MUCH, TOO_MUCH, 8 * TOO_MUCH, TOO_MUCH]


def test_two_lines_in_turn_are_each_looked_into_as_rarely(looks: list[int]) -> None:
    for _ in range(16):
        failure(empty, TOO_MUCH)
        failure(empty, 2 * TOO_MUCH)
    assert len(looks) == 2 * 5


def drop_a_cycle_with(size: int) -> None:
    cycle = [empty(size)]
    cycle.append(cycle)
    # Old, as what an error has left is once it has been collected for.
    gc.collect()


@pytest.fixture
def no_automatic_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_garbage_is_found_after_errors_in_vain(no_automatic_collections: None) -> None:
    collect()
    texts_of(7)
    size = torch.cuda.mem_get_info()[0] * 3 // 4
    drop_a_cycle_with(size)
    assert empty(size).numel() == size


def test_a_run_that_goes_on_has_met_errors_and_not_failed() -> None:
    before = latest_error.met()
    texts_of(3, size=1 << 43)
    for _ in range(5):
        served = empty(GIB)
    del served
    assert not latest_error.has_gone_on()
    # As much as was refused, in all.
    torch.cuda.reset_accumulated_memory_stats()
    report = frugal_alloc.report()
    oom = report.document["oom"]
    assert (oom["went_on"], oom["errors"]) == (True, before + 3)
    assert oom["number"] == before + 2
    text = str(report)
    assert "the run went out of memory" not in text
    assert re.search(rf"^The run met {before + 3} out-of-memory errors and went on\.", text, re.M), text
    assert headline(report.document)[0].endswith(f"; the run met {before + 3} out-of-memory errors and went on")


@pytest.fixture
def refused() -> int:
    """Asks for all of the GPU, which nobody can have; returns how many pieces of a GiB are at least as much."""
    limit = torch.cuda.get_device_properties(0).total_memory
    failure(empty, limit)
    return -(-limit // GIB)


def test_a_run_goes_on_once_it_was_given_as_much_as_was_refused(refused: int) -> None:
    for _ in range(refused):
        assert not latest_error.has_gone_on()
        empty(GIB)
    assert latest_error.has_gone_on()
    failure(empty, TOO_MUCH)
    assert not latest_error.has_gone_on()


def test_a_program_that_ends_by_an_error_has_not_gone_on(refused: int) -> None:
    for _ in range(refused):
        empty(GIB)
    assert latest_error.has_gone_on()
    latest_error.note_end()
    assert not latest_error.has_gone_on()
