"""The peak of a recording, and what it consists of."""

from frugal_alloc._planning import marks
from frugal_alloc._planning.fit.process_record import Place
from frugal_alloc._planning.fit.verdict import (
    ACTIVATIONS,
    BACKWARD,
    CONTEXT,
    ELSEWHERE,
    FORWARD,
    GRADIENTS,
    INPUTS,
    TEMPORARIES,
    WASTE,
    CodeLine,
)
from made_up_journal import PLACES, MadeUpJournal


def a_step() -> MadeUpJournal:
    journal = MadeUpJournal()
    journal.take(1000)
    journal.allocate(1, 100)
    journal.allocate(2, 600, in_module=True)
    journal.mark(marks.BACKWARD)
    journal.take(500)
    journal.allocate(3, 400)
    journal.allocate(4, 300)
    journal.free(4)
    journal.free(2)
    journal.mark(marks.AFTER_BACKWARD)
    return journal


def test_components_of_each_moment_add_up_to_what_is_in_use():
    found = a_step().peaks()
    for moment in (found.peak, *found.phases, *found.series):
        assert sum(moment.components.values()) == moment.used_bytes


def test_the_peak_is_where_most_was_asked_for():
    found = a_step().peaks()
    assert (found.peak.phase, found.peak.used_bytes) == (BACKWARD, 1500)
    assert found.peak.components == {INPUTS: 100, ACTIVATIONS: 600, GRADIENTS: 400, TEMPORARIES: 300, WASTE: 100}


def test_what_an_allocator_takes_beyond_that_moves_no_peak():
    journal = a_step()
    journal.take(4000)
    journal.allocate(5, 1)
    found = journal.peaks()
    assert found.peak.phase == BACKWARD
    assert found.most_used_bytes == 5500


def test_each_phase_has_its_own_peak():
    found = a_step().peaks()
    assert {moment.phase: moment.used_bytes for moment in found.phases} == {
        FORWARD: 1000,
        BACKWARD: 1500,
        ELSEWHERE: 1000,
    }


def test_what_the_gpu_has_in_use_beyond_the_allocators_is_the_contexts():
    journal = a_step()
    journal.entries = [
        entry._replace(gpu_used=entry.gpu_used + 77) if entry.gpu_used >= 0 else entry for entry in journal.entries
    ]
    assert journal.peaks().peak.components[CONTEXT] == 77


def test_bytes_of_lines_are_those_of_the_components_at_the_peak():
    found = a_step().peaks()
    by_component = {name: size for name, size in found.peak.components.items() if name not in (WASTE, CONTEXT)}
    assert {line.component: line.bytes for line in found.lines} == by_component


def test_in_a_backward_pass_the_line_is_that_of_the_forward_pass():
    forward, node = 5, 6
    places = PLACES | {
        forward: Place(("model.py", 3, "forward"), (), "", 0),
        node: Place(None, (), "MulBackward0", forward),
    }
    journal = MadeUpJournal()
    journal.take(1000)
    journal.mark(marks.BACKWARD)
    journal.allocate(1, 400, site=node)
    assert journal.peaks(places).peak.where == CodeLine("model.py", 3, "forward")


def test_a_recording_without_allocations_has_no_peak():
    assert MadeUpJournal().peaks() is None
