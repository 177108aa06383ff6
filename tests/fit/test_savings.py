"""What a change would save is estimated from what was held, and is what it saves when it is made."""

from __future__ import annotations

from typing import Any

import pytest
from frugal_alloc._command.fit import breakdown, process_record
from frugal_alloc._command.fit.process_record import CHECKPOINTED, LOSS, MODULE_CALL, Place
from frugal_alloc._command.fit.verdict import INPUTS, PARAMETERS, Savings
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


def savings(journal: MadeUpJournal, *, is_half: bool = False) -> Savings:
    found = breakdown.peaks(journal.recording(places=PLACES), PLACES, rank=0, gpu=0, counted=None, is_half=is_half)
    assert found is not None
    return found.savings


def training(*kept: tuple[int, int], parameters: int = 1000) -> MadeUpJournal:
    """Parameters, and a forward pass that leaves allocations of these sites and sizes, and a result of 7 bytes."""
    journal = MadeUpJournal()
    journal.allocate(1, parameters)
    journal.label(1, PARAMETERS)
    for number, (site, size) in enumerate(kept):
        journal.allocate(10 + number, size, site=site, in_module=True)
    journal.allocate(RESULT, 7, site=SECOND, in_module=True)
    journal.mark(process_record.BACKWARD)
    return journal


def end(journal: MadeUpJournal, kept: int) -> MadeUpJournal:
    """The backward pass lets go of what was kept, the last first."""
    journal.free(RESULT)
    for number in reversed(range(kept)):
        journal.free(10 + number)
    journal.mark(process_record.AFTER_BACKWARD)
    return journal


def test_half_the_batch_halves_activations_and_the_temporaries_beside_them() -> None:
    journal = training((FIRST, 600))
    journal.allocate(5, 400, site=BESIDE)
    journal.free(5)
    assert savings(end(journal, 1)).half_batch_bytes == (600 + 7 + 400) // 2


def test_a_temporary_as_large_as_a_parameter_does_not_grow_with_the_batch() -> None:
    journal = training((FIRST, 600))
    for size in (1000, 500):
        journal.allocate(5, size, site=BESIDE)
        journal.free(5)
    # The peak, 600 + 7 + 1000 + 1000, loses half of the first two.
    assert savings(end(journal, 1)).half_batch_bytes == (600 + 7) // 2


def test_copies_of_parameters_in_half_precision_do_not_grow_with_the_batch() -> None:
    kept = ((FIRST, 500), (FIRST, 500))
    assert savings(end(training(*kept), 2)).half_batch_bytes == (500 + 500 + 7) // 2
    assert savings(end(training(*kept), 2), is_half=True).half_batch_bytes == (500 + 7) // 2


def test_half_the_batch_saves_no_more_than_another_moment_leaves() -> None:
    journal = end(training((FIRST, 600)), 1)
    journal.mark(process_record.OPTIMIZER)
    journal.allocate(6, 500, site=BESIDE)
    journal.free(6)
    journal.mark(process_record.AFTER_OPTIMIZER)
    assert savings(journal).half_batch_bytes == 1607 - 1500


def test_a_batch_is_halved_with_what_becomes_of_it() -> None:
    journal = MadeUpJournal()
    journal.allocate(3, 200)
    journal.label(3, process_record.COPIED_FROM_HOST)
    assert journal.recording().allocations[0].component == INPUTS
    assert savings(journal).half_batch_bytes == 100


def test_checkpoints_keep_one_block_of_each_layer_and_compute_one_layer_again() -> None:
    layers = 10
    kept = ((FIRST, 60), (SECOND, 40)) * layers
    found = savings(end(training(*kept), len(kept)))
    # As the last is let go 960 are there without checkpoints; with them half of these, as each layer has two blocks,
    # and one layer's 100.
    assert found.checkpoints_bytes == 1007 - (960 // 2 + 100)
    assert found.checkpoints_line is not None
    assert (found.checkpoints_line.where.line, found.checkpoints_line.bytes) == (5, 600)


def test_layers_that_are_all_unlike_keep_a_third_with_checkpoints() -> None:
    assert savings(end(training((FIRST, 900)), 1)).checkpoints_bytes == 600


@pytest.mark.parametrize("site", [IN_CHECKPOINT, IN_LOSS])
def test_what_a_checkpoint_or_a_loss_keeps_is_nothing_that_a_checkpoint_would_save(site: int) -> None:
    found = savings(end(training(*((site, 100),) * 8), 8))
    assert (found.checkpoints_bytes, found.checkpoints_line) == (0, None)


def test_a_models_result_is_nothing_that_a_checkpoint_would_save() -> None:
    found = savings(end(training(), 0))
    assert (found.checkpoints_bytes, found.checkpoints_line) == (0, None)


def advice(verdict: dict[str, Any], words: str) -> list[dict[str, Any]]:
    return [change for change in verdict["changes"] if words in change["text"]]


@pytest.mark.parametrize("options", ["", "checkpoints", "half precision"])
def test_half_the_batch_saves_what_is_estimated(options: str, fit_program: Any) -> None:
    more, less = (fit_program(f"language_model:{batch}:{options}", "--steps", "2").verdict for batch in (32, 16))
    saved = more["ranks"][0]["requested_peak_bytes"] - less["ranks"][0]["requested_peak_bytes"]
    (change,) = advice(more, "half the batch")
    assert change["is_estimate"]
    assert change["bytes"] == pytest.approx(saved, rel=0.02)


def test_checkpoints_are_advised_for_the_layers_and_save_about_what_is_estimated(fit_program: Any) -> None:
    plain, checkpointed = (
        fit_program(f"language_model:32:{options}", "--steps", "2").verdict for options in ("", "checkpoints")
    )
    (change,) = advice(plain, "checkpoint the layers")
    held = [line for line in plain["ranks"][0]["lines"] if line["component"] == "activations"]
    line = max(held, key=lambda line: line["blocks"])["where"]["line"]
    assert f"fitted_programs.py:{line}" in change["text"]
    saved = plain["ranks"][0]["requested_peak_bytes"] - checkpointed["ranks"][0]["requested_peak_bytes"]
    assert change["bytes"] == pytest.approx(saved, rel=0.2)


def test_a_program_that_checkpoints_all_of_its_layers_is_not_advised_to(fit_program: Any) -> None:
    verdict = fit_program("language_model:32:checkpoints", "--steps", "2").verdict
    assert verdict["ranks"][0]["peak"]["components"]["activations"] > 100 << 20
    assert advice(verdict, "checkpoint the layers") == []
