"""What a change would save is estimated from what was held, and is what it saves when it is made."""

from __future__ import annotations

from typing import Any

import pytest
from frugal_alloc._planning import marks
from frugal_alloc._planning.fit.changes import Traits
from frugal_alloc._planning.fit.process_record import CHECKPOINTED, LOSS, MODULE_CALL, Place
from frugal_alloc._planning.fit.verdict import INPUTS, OPTIMIZER_STATE, PARAMETERS
from made_up_journal import MadeUpJournal

FIRST, SECOND, IN_CHECKPOINT, IN_LOSS, BESIDE = range(1, 6)
PLACES = {
    FIRST: Place(("model.py", 5, "forward"), (MODULE_CALL,), "", 0),
    SECOND: Place(("model.py", 6, "forward"), (MODULE_CALL,), "", 0),
    IN_CHECKPOINT: Place(("model.py", 7, "forward"), (CHECKPOINTED, MODULE_CALL), "", 0),
    IN_LOSS: Place(("model.py", 8, "forward"), (LOSS, MODULE_CALL), "", 0),
    BESIDE: Place(("train.py", 9, "train"), (), "", 0),
}
RESULT = 99


def saved(journal: MadeUpJournal, words: str, *, is_half: bool = False) -> int:
    """0: such a change is not advised."""
    found = journal.peaks(PLACES, Traits(is_half=is_half))
    assert found is not None
    return next((change.bytes for change in found.changes if words in change.text), 0)


def half_batch(journal: MadeUpJournal, *, is_half: bool = False) -> int:
    return saved(journal, "half the batch", is_half=is_half)


def training(*kept: tuple[int, int], parameters: int = 1000) -> MadeUpJournal:
    """Parameters, and a forward pass that leaves allocations of these sites and sizes, and a result of 7 bytes."""
    journal = MadeUpJournal()
    journal.allocate(1, parameters)
    journal.label(1, PARAMETERS)
    for number, (site, size) in enumerate(kept):
        journal.allocate(10 + number, size, site=site, in_module=True)
    journal.allocate(RESULT, 7, site=SECOND, in_module=True)
    journal.mark(marks.BACKWARD)
    return journal


def end(journal: MadeUpJournal, kept: int) -> MadeUpJournal:
    """The backward pass lets go of what was kept, the last first."""
    journal.free(RESULT)
    for number in reversed(range(kept)):
        journal.free(10 + number)
    journal.mark(marks.AFTER_BACKWARD)
    return journal


def test_half_the_batch_halves_activations_and_the_temporaries_beside_them() -> None:
    journal = training((FIRST, 600))
    journal.allocate(5, 400, site=BESIDE)
    journal.free(5)
    assert half_batch(end(journal, 1)) == 300 + 3 + 200


def test_a_temporary_as_large_as_a_parameter_does_not_grow_with_the_batch() -> None:
    journal = training((FIRST, 600))
    for size in (1000, 500):
        journal.allocate(5, size, site=BESIDE)
        journal.free(5)
    # The peak, 600 + 7 + 1000 + 1000, loses half of the first two.
    assert half_batch(end(journal, 1)) == 300 + 3


def test_copies_of_parameters_in_half_precision_do_not_grow_with_the_batch() -> None:
    kept = ((FIRST, 500), (FIRST, 500))
    assert half_batch(end(training(*kept), 2)) == 250 + 250 + 3
    assert half_batch(end(training(*kept), 2), is_half=True) == 250 + 3


def test_a_change_saves_no_more_than_another_moment_leaves() -> None:
    journal = end(training((FIRST, 600)), 1)
    journal.mark(marks.OPTIMIZER)
    journal.allocate(6, 500, site=BESIDE)
    journal.free(6)
    journal.mark(marks.AFTER_OPTIMIZER)
    assert half_batch(journal) == 1607 - 1500


def test_a_batch_is_halved_with_what_becomes_of_it() -> None:
    journal = MadeUpJournal()
    journal.allocate(3, 200)
    journal.label(3, marks.COPIED_FROM_HOST)
    assert journal.recording().allocations[0].component == INPUTS
    assert half_batch(journal) == 100


def test_checkpoints_keep_one_block_of_each_layer_and_compute_one_layer_again() -> None:
    layers = 10
    kept = ((FIRST, 60), (SECOND, 40)) * layers
    # As the last block is let go the layer that it is of has 60 again, and nine others one block of 50 each.
    assert saved(end(training(*kept), len(kept)), "checkpoint the layers") == 2007 - (1000 + 9 * 50 + 60)


@pytest.mark.parametrize("kept", [[(FIRST, 900)], [(IN_CHECKPOINT, 100)] * 8, [(IN_LOSS, 100)] * 8, []])
def test_checkpoints_are_advised_for_nothing_but_layers_that_repeat(kept: list[tuple[int, int]]) -> None:
    """Nor for what is in one already, for a loss, or for the model's result."""
    assert saved(end(training(*kept), len(kept)), "checkpoint the layers") == 0


STATES = ((4, 8000 - 2031), (2, 8000 - 4062), (1, 0))


@pytest.mark.parametrize(("size", "less"), STATES)
def test_8_bits_take_a_byte_and_a_64th_of_each_number_of_a_state(size: int, less: int) -> None:
    journal = training()
    journal.mark(marks.OPTIMIZER)
    journal.allocate(6, 8000, site=BESIDE)
    journal.label(6, OPTIMIZER_STATE)
    for label, bytes_each in marks.NUMBERS.items():
        if bytes_each == size:
            journal.label(6, label)
    journal.mark(marks.AFTER_OPTIMIZER)
    assert saved(journal, "8-bit") == less


# Two programs, of which the second has made the change that the first is advised.
CARRIED_OUT = [
    ("language_model:32:", "language_model:16:", "half the batch"),
    ("language_model:32:checkpoints", "language_model:16:checkpoints", "half the batch"),
    ("language_model:32:half precision", "language_model:16:half precision", "half the batch"),
    ("language_model:32:", "language_model:32:checkpoints", "checkpoint the layers"),
    ("language_model:32:norm first chunks", "language_model:32:norm first chunks checkpoints", "checkpoint the layers"),
    ("language_model:32:half precision", "language_model:32:half precision checkpoints", "checkpoint the layers"),
    ("wide_batch:", "wide_batch:checkpoints", "checkpoint the layers"),
    ("language_model:32:", "language_model:32:chunks", "the loss in 8 parts"),
    ("language_model:32:checkpoints", "language_model:32:checkpoints chunks", "the loss in 8 parts"),
    ("language_model:32:half precision", "language_model:32:half precision chunks", "the loss in 8 parts"),
    ("wide_layers:", "wide_layers:8 bits", "8-bit"),
    ("wide_layers:half", "wide_layers:half 8 bits", "8-bit"),
    ("wide_layers:", "wide_layers:fused", "fused=True"),
    ("wide_layers:", "wide_layers:each", "step each parameter"),
    ("wide_layers:fused", "wide_layers:fused each", "step each parameter"),
    ("wide_layers:fused large batch", "wide_layers:fused large batch before", "zero_grad()"),
]


@pytest.mark.parametrize(("first", "changed", "words"), CARRIED_OUT)
def test_a_change_saves_what_was_said_to_a_tenth(first: str, changed: str, words: str, fit_program: Any) -> None:
    before, after = (fit_program(name, "--steps", "2").verdict for name in (first, changed))
    (change,) = [change for change in before["changes"] if words in change["text"]]
    saved = before["ranks"][0]["requested_peak_bytes"] - after["ranks"][0]["requested_peak_bytes"]
    assert change["bytes"] == pytest.approx(saved, rel=0.1)


NOT_AGAIN = [(changed, words) for _, changed, words in CARRIED_OUT if words != "half the batch"]


@pytest.mark.parametrize(("changed", "words"), NOT_AGAIN)
def test_what_a_program_does_already_is_not_advised(changed: str, words: str, fit_program: Any) -> None:
    verdict = fit_program(changed, "--steps", "2").verdict
    assert not any(words in change["text"] for change in verdict["changes"])


def test_checkpoints_are_advised_for_the_line_that_holds_most(fit_program: Any) -> None:
    verdict = fit_program("language_model:32:", "--steps", "2").verdict
    held = [line for line in verdict["ranks"][0]["lines"] if line["component"] == "activations"]
    line = max(held, key=lambda line: line["blocks"])["where"]["line"]
    assert any(f"fitted_programs.py:{line}" in change["text"] for change in verdict["changes"])
