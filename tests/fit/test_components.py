"""What memory is for: by its labels, by where it was made, by when it was made and freed."""

import pytest
from frugal_alloc._planning import marks
from frugal_alloc._planning.fit.process_record import CHECKPOINTED, MODULE_CALL, MODULE_MADE, Place
from frugal_alloc._planning.fit.verdict import (
    ACTIVATIONS,
    COMMUNICATION,
    GRADIENTS,
    INPUTS,
    OPTIMIZER_STATE,
    PARAMETERS,
    TEMPORARIES,
    UNNAMED,
    WORKSPACES,
)
from made_up_journal import DISTRIBUTED, PLACES, MadeUpJournal, components


@pytest.mark.parametrize(
    "labels, component",
    [
        ([PARAMETERS], PARAMETERS),
        ([GRADIENTS], GRADIENTS),
        ([OPTIMIZER_STATE], OPTIMIZER_STATE),
        ([marks.WORKSPACE], WORKSPACES),
        ([marks.COPIED_FROM_HOST], INPUTS),
        ([marks.COPIED_FROM_HOST, PARAMETERS], PARAMETERS),
    ],
)
def test_a_label_says_what_an_allocation_is_for(labels, component):
    journal = MadeUpJournal()
    journal.allocate(1, 100)
    for label in labels:
        journal.label(1, label)
    assert components(journal.recording()) == [component]


def test_a_label_holds_for_the_allocation_that_is_live_then_and_for_no_other():
    journal = MadeUpJournal()
    journal.allocate(1, 100)
    journal.free(1)
    journal.allocate(1, 200)
    journal.label(1, PARAMETERS)
    journal.free(1)
    journal.allocate(1, 300)
    assert components(journal.recording()) == [UNNAMED, PARAMETERS, UNNAMED]


def test_results_that_a_backward_pass_needs_are_activations_and_others_temporaries():
    journal = MadeUpJournal()
    journal.allocate(1, 100, in_module=True)
    journal.allocate(2, 100, in_module=True)
    journal.free(2)
    journal.mark(marks.BACKWARD)
    journal.free(1)
    assert components(journal.recording()) == [ACTIVATIONS, TEMPORARIES]


def test_what_outlives_a_backward_pass_is_a_gradient_and_what_outlives_a_step_a_state():
    journal = MadeUpJournal()
    journal.mark(marks.BACKWARD)
    journal.allocate(1, 100)
    journal.allocate(2, 100)
    journal.free(2)
    journal.mark(marks.AFTER_BACKWARD, marks.OPTIMIZER)
    journal.allocate(3, 100)
    journal.allocate(4, 100)
    journal.free(4)
    journal.mark(marks.AFTER_OPTIMIZER, marks.STEP)
    assert components(journal.recording()) == [GRADIENTS, TEMPORARIES, OPTIMIZER_STATE, TEMPORARIES]


def test_what_the_program_makes_outside_of_phases_and_brings_into_a_forward_pass_is_an_input():
    journal = MadeUpJournal()
    journal.allocate(1, 100)
    journal.allocate(2, 100, in_module=True)
    assert components(journal.recording()) == [INPUTS, ACTIVATIONS]


@pytest.mark.parametrize(
    "trait, begun, component",
    [
        (MODULE_CALL, [marks.BACKWARD], ACTIVATIONS),  # what a checkpoint computes again
        (CHECKPOINTED, [marks.BACKWARD], ACTIVATIONS),
        (MODULE_MADE, [], PARAMETERS),  # even those that go at once, as it is moved
        (PLACES[DISTRIBUTED].traits[0], [], COMMUNICATION),
    ],
)
def test_where_it_was_made_says_what_an_allocation_is_for(trait, begun, component):
    site = 9
    journal = MadeUpJournal()
    journal.mark(*begun)
    journal.allocate(1, 100, site=site, in_module=True)
    journal.free(1)
    assert components(journal.recording(places={site: Place(None, (trait,), "", 0)})) == [component]
