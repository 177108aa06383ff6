"""In which phase a program is, by what its journal says."""

import pytest
from frugal_alloc._planning import marks
from frugal_alloc._planning.fit.verdict import BACKWARD, ELSEWHERE, EVALUATION, FORWARD, OPTIMIZER
from made_up_journal import MadeUpJournal, phases


def training_step(journal: MadeUpJournal, address: int) -> None:
    journal.allocate(address, 100, in_module=True)
    journal.mark(marks.BACKWARD)
    journal.allocate(address + 1000, 50)
    journal.mark(marks.AFTER_BACKWARD, marks.OPTIMIZER)
    journal.allocate(address + 2000, 10)
    journal.mark(marks.AFTER_OPTIMIZER, marks.STEP)


def test_a_step_is_a_forward_pass_a_backward_pass_and_an_optimizers_step():
    journal = MadeUpJournal()
    journal.allocate(1, 8)
    training_step(journal, 2)
    recording = journal.recording()
    assert phases(recording) == [ELSEWHERE, FORWARD, BACKWARD, ELSEWHERE, OPTIMIZER, ELSEWHERE]
    assert {stretch.step for stretch in recording.stretches if stretch.phase == BACKWARD} == {1}


def test_steps_are_counted_from_one():
    journal = MadeUpJournal()
    training_step(journal, 2)
    training_step(journal, 3)
    steps = [stretch.step for stretch in journal.recording().stretches if stretch.phase == OPTIMIZER]
    assert steps == [1, 2]


def test_a_model_called_without_gradients_is_evaluation():
    journal = MadeUpJournal()
    training_step(journal, 2)
    journal.allocate(7, 100, in_module=True, gradients=False)
    training_step(journal, 3)
    assert phases(journal.recording())[-6:] == [EVALUATION, FORWARD, BACKWARD, ELSEWHERE, OPTIMIZER, ELSEWHERE]


WITH, WITHOUT = {"in_module": True}, {"in_module": True, "gradients": False}


@pytest.mark.parametrize(
    ("events", "last"),
    [
        pytest.param([WITHOUT, marks.BACKWARD], [ELSEWHERE, FORWARD, BACKWARD], id="a compiled model"),
        pytest.param([WITH, WITHOUT, marks.BACKWARD], [ELSEWHERE, FORWARD, BACKWARD], id="a part without gradients"),
        pytest.param(
            [marks.BACKWARD, marks.AFTER_BACKWARD, marks.STEP, {}, marks.BACKWARD],
            [FORWARD, BACKWARD],
            id="a model that is no module",
        ),
        pytest.param(
            [WITH, marks.BACKWARD, WITH, marks.AFTER_BACKWARD],
            [ELSEWHERE, FORWARD, BACKWARD, ELSEWHERE],
            id="a checkpoint's calls in a backward pass",
        ),
    ],
)
def test_what_leads_to_a_backward_pass_is_one_forward_pass(events, last):
    journal = MadeUpJournal()
    for address, event in enumerate(events):
        journal.mark(event) if isinstance(event, str) else journal.allocate(address, 100, **event)
    assert phases(journal.recording())[-len(last) :] == last


def test_what_comes_after_the_last_call_that_counts_is_left_out():
    journal = MadeUpJournal()
    for call in range(10):
        journal.allocate(call, 100, in_module=True, gradients=False)
        journal.allocate(call + 50, 100, gradients=False)
    assert len(journal.recording(most_calls=3).allocations) == 7  # the call that was one too many has begun


def test_what_comes_after_the_end_is_left_out():
    journal = MadeUpJournal()
    journal.allocate(1, 100)
    journal.mark(marks.END)
    journal.allocate(2, 100)
    assert len(journal.recording().allocations) == 1
