"""What is said to grow from step to step, and what only seems to; which batches were seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from frugal_alloc._planning import marks
from frugal_alloc._planning.fit import growth
from frugal_alloc._planning.fit.process_record import Place
from frugal_alloc._planning.fit.verdict import Growth, Inputs, RankPeaks
from made_up_journal import MadeUpJournal

CACHE, BATCH = 7, 8
PLACES = {CACHE: Place(("train.py", 7, "step"), (), "", 0), BATCH: Place(("train.py", 8, "step"), (), "", 0)}
STEPS = 8


def peaks(step: Callable[[MadeUpJournal, int], None], steps: int = STEPS) -> RankPeaks:
    """Of a training whose steps, from 1 on, do this between their forward and their backward pass."""
    journal = MadeUpJournal()
    journal.take(1000)
    for number in range(1, steps + 1):
        step(journal, number)
        journal.mark(marks.BACKWARD, marks.AFTER_BACKWARD, marks.STEP)
    found = journal.peaks(PLACES)
    assert found is not None
    return found


def keeps(size: Callable[[int], int]) -> Callable[[MadeUpJournal, int], None]:
    """What so many bytes large a step keeps for good, besides a batch that goes with the next."""

    def step(journal: MadeUpJournal, number: int) -> None:
        journal.allocate(number % 2, 100, site=BATCH, in_module=True)
        if number > 1:
            journal.free(1 - number % 2)
        if size(number):
            journal.allocate(100 + number, size(number), site=CACHE, in_module=True)

    return step


def grown(step: Callable[[MadeUpJournal, int], None], steps: int = STEPS) -> tuple[int, int] | None:
    """Bytes and the line."""
    found = peaks(step, steps).growth
    return None if found is None or found.where is None else (found.bytes, found.where.line)


SIZES = {
    "what each step keeps": ([50] * 8, (50, 7)),
    "more and less, by its mean": ([30, 90, 50, 80, 40, 70, 60, 20], ((90 + 50 + 80 + 40 + 70) // 5, 7)),
    **{f"no cache that is full after {last}": ([50] * last + [0] * (8 - last), None) for last in range(1, 6)},
    **{f"a list, and no cache of {last} beside it": ([50] * last + [4] * (8 - last), (4, 7)) for last in (3, 4, 5)},
    "not what one step in two keeps": ([50, 0] * 4, None),
    "nothing, where one step keeps nothing": ([50, 50, 0, 50, 50, 50, 50, 50], None),
    **{f"nothing in {steps} steps": ([50] * steps, None) for steps in (1, 2, 5)},
}


@pytest.mark.parametrize(("sizes", "found"), SIZES.values(), ids=SIZES)
def test_growth_is(sizes: list[int], found: tuple[int, int] | None) -> None:
    assert grown(keeps(lambda number: sizes[number - 1]), len(sizes)) == found


def test_a_tensor_that_a_longer_one_replaces_is_growth_of_both_while_they_are_there() -> None:
    def step(journal: MadeUpJournal, number: int) -> None:
        journal.allocate(10 + number, 100 * number, site=CACHE)
        if number > 1:
            journal.free(10 + number - 1)

    found = peaks(step).growth
    assert found is not None and (found.bytes, found.needed_bytes) == (100, 200)


def test_batches_that_become_longer_and_go_are_no_growth() -> None:
    def step(journal: MadeUpJournal, number: int) -> None:
        journal.allocate(10 + number, 100 + 7 * number * number, site=BATCH, in_module=True)
        if number > 1:
            journal.free(10 + number - 1)

    assert grown(step) is None


def test_calls_of_a_model_that_is_not_trained_are_its_steps() -> None:
    journal = MadeUpJournal()
    for number in range(1, 10):
        journal.allocate(number, 100, site=CACHE, in_module=True, gradients=False)
        journal.allocate(99, 1, site=BATCH)
        journal.free(99)
    recording = journal.recording(STEPS, PLACES, trains=False)
    found = growth.growth(recording, {})
    assert found == Growth(100, 100, None)
    assert (recording.calls, recording.whole_steps) == (STEPS, STEPS)


def test_memory_is_full_in_the_step_in_which_no_more_growth_has_room() -> None:
    found = peaks(keeps(lambda number: 50))
    held = found.peak.used_bytes - found.peak.components.get("waste", 0)
    assert found.peak.step == STEPS
    assert [found.full_in_step(held + more) for more in (0, 49, 50, 500)] == [
        STEPS + 1,
        STEPS + 1,
        STEPS + 2,
        STEPS + 11,
    ]
    assert found.full_in_step(held + (50 << 20)) is None, "no job makes a million steps"


def test_the_longest_batch_so_far_is_known() -> None:
    sizes = [0, 10, 20, 90, 40]

    def step(journal: MadeUpJournal, number: int) -> None:
        journal.allocate(10 + number, sizes[number], site=BATCH)
        journal.label(10 + number, marks.COPIED_FROM_HOST)
        if number > 1:
            journal.free(10 + number - 1)
        journal.allocate(1000, 5, in_module=True)
        journal.free(1000)

    assert peaks(step, steps=4).inputs == Inputs(10, 90, 3)


# Of tensors of many sizes PyTorch's allocator wastes more with each step, which no one can know before.
GROWING = [("leaking", 0.1), ("leaking_of_all_lengths", 0.5), ("joining", 0.5)]


@pytest.mark.parametrize(("name", "off"), GROWING)
def test_a_program_that_grows_fits_now_and_is_full_in_a_later_step(name: str, off: float, fit_program: Any) -> None:
    outcome = fit_program(name, "--memory", "1GiB")
    verdict = outcome.verdict
    assert (outcome.status, verdict["fits"], verdict["ended"], verdict["steps"]) == (1, True, "steps", STEPS)
    whole = fit_program(name, "--memory", "1GiB", "--steps", str(2 * verdict["full_in_step"])).verdict
    assert whole["ended"] == "out of memory"
    assert verdict["full_in_step"] == pytest.approx(whole["steps"] + 1, rel=off)
    assert verdict["ranks"][0]["growth"]["where"]["function"] == name


@pytest.mark.parametrize("name", ["plain", "of_all_lengths", "filling_a_cache", "with_evaluation", "accumulated"])
def test_a_program_that_does_not_grow_is_not_said_to(name: str, fit_program: Any) -> None:
    outcome = fit_program(name)
    assert (outcome.status, outcome.verdict["full_in_step"]) == (0, None)


def test_batches_that_differ_are_said_and_the_longest_come_first_if_that_is_asked_for(fit_program: Any) -> None:
    usual, longest = (fit_program("of_all_lengths", *options).verdict for options in ((), ("--longest",)))
    assert usual["largest_so_far"]["step"] == 7
    assert any("--longest" in sentence for sentence in usual["not_seen"])
    assert longest["largest_so_far"] is None
    assert not any("--longest" in sentence for sentence in longest["not_seen"])
    # The longest text has 900 words; the longest of the first batches 300.
    given = longest["ranks"][0]["inputs"]
    assert (given["step"], given["most_bytes"]) == (1, 900 * usual["largest_so_far"]["most_bytes"] // 300)
    whole = fit_program("of_all_lengths", "--steps", "0").verdict
    (peak, same) = (verdict["ranks"][0]["requested_peak_bytes"] for verdict in (longest, whole))
    assert peak == pytest.approx(same, rel=0.01)


def test_longest_says_so_where_there_is_no_loader(fit_program: Any) -> None:
    verdict = fit_program("leaking_of_all_lengths", "--longest").verdict
    assert any("found no DataLoader" in sentence for sentence in verdict["not_seen"])


def test_an_evaluation_that_did_not_come_is_said_not_to_be_seen(fit_program: Any) -> None:
    plain, evaluated = (fit_program(name).verdict["not_seen"] for name in ("plain", "with_evaluation"))
    assert "an evaluation" in plain[0] and "an evaluation" not in evaluated[0]
