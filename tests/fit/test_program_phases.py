"""In which phase a program is, by what its journal says."""

from frugal_alloc._fit import marks
from frugal_alloc._fit.verdict import BACKWARD, ELSEWHERE, EVALUATION, FORWARD, OPTIMIZER
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


def test_a_compiled_model_whose_backward_pass_follows_was_no_evaluation():
    journal = MadeUpJournal()
    journal.allocate(1, 100, in_module=True, gradients=False)
    journal.mark(marks.BACKWARD)
    assert phases(journal.recording()) == [ELSEWHERE, FORWARD, BACKWARD]


def test_a_part_without_gradients_does_not_end_a_forward_pass():
    journal = MadeUpJournal()
    journal.allocate(1, 100, in_module=True)
    journal.allocate(2, 100, in_module=True, gradients=False)
    journal.mark(marks.BACKWARD)
    assert phases(journal.recording()) == [ELSEWHERE, FORWARD, BACKWARD]


def test_what_comes_before_a_backward_pass_is_the_forward_pass_of_a_model_that_is_no_module():
    journal = MadeUpJournal()
    journal.mark(marks.BACKWARD, marks.AFTER_BACKWARD, marks.STEP)
    journal.allocate(1, 100)
    journal.mark(marks.BACKWARD)
    assert phases(journal.recording())[-2:] == [FORWARD, BACKWARD]


def test_a_checkpoints_module_calls_in_a_backward_pass_do_not_end_it():
    journal = MadeUpJournal()
    journal.allocate(1, 100, in_module=True)
    journal.mark(marks.BACKWARD)
    journal.allocate(2, 100, in_module=True)
    journal.mark(marks.AFTER_BACKWARD)
    assert phases(journal.recording()) == [ELSEWHERE, FORWARD, BACKWARD, ELSEWHERE]


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
