"""What an allocation is for: by its labels first, then by where it was made, then by when it was made and freed."""

from __future__ import annotations

from collections.abc import Sequence

from . import marks, places
from .phases import Stretch
from .places import Place
from .verdict import (
    ACTIVATIONS,
    BACKWARD,
    COMMUNICATION,
    EVALUATION,
    FORWARD,
    GRADIENTS,
    INPUTS,
    OPTIMIZER,
    OPTIMIZER_STATE,
    PARAMETERS,
    TEMPORARIES,
    UNNAMED,
    WORKSPACES,
)

LabelsOf = frozenset[str]

# The first that fits counts: a parameter was copied from the host, too.
_BY_LABEL = (
    (PARAMETERS, PARAMETERS),
    (GRADIENTS, GRADIENTS),
    (OPTIMIZER_STATE, OPTIMIZER_STATE),
    (marks.WORKSPACE, WORKSPACES),
)
_BY_TRAIT = ((places.DISTRIBUTED, COMMUNICATION), (places.MODULE_MADE, PARAMETERS))
# What outlives the phase that it was made in, and what does not.
_OUTLIVING = {FORWARD: ACTIVATIONS, BACKWARD: GRADIENTS, OPTIMIZER: OPTIMIZER_STATE, EVALUATION: ACTIVATIONS}


def component_of(labels: LabelsOf, place: Place | None, born: int, died: int, stretches: Sequence[Stretch]) -> str:
    """One of COMPONENTS; never WASTE or CONTEXT, which no allocation is.

    Args:
        born, died: The numbers of the stretches in which it was made and freed; a number above all: it never was.
    """
    for label, component in _BY_LABEL:
        if label in labels:
            return component
    traits = place.traits if place is not None else ()
    for trait, component in _BY_TRAIT:
        if trait in traits:
            return component
    if marks.COPIED_FROM_HOST in labels:
        return INPUTS
    phase = stretches[born].phase
    # A checkpoint's forward pass is done again in the backward pass; evaluation has layers' results and little else.
    if phase == EVALUATION or (phase == BACKWARD and {places.MODULE_CALL, places.CHECKPOINTED} & set(traits)):
        return ACTIVATIONS
    if phase in _OUTLIVING:
        return _OUTLIVING[phase] if died > born else TEMPORARIES
    # What a program makes outside of its phases and brings into one.
    if any(stretch.phase in (FORWARD, EVALUATION) for stretch in stretches[born + 1 : died + 1]):
        return INPUTS
    return TEMPORARIES if born > 0 and died == born else UNNAMED
