"""What the journal of a program tells of one GPU: its allocations, in which phase each was made, and what it is for.

Moments are numbers of entries of the journal.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from ..._native import journal
from ..._native.journal import JournalEntry
from .. import marks
from ..timeline import NEVER, Block, Timeline
from . import process_record as recorded
from . import verdict
from .process_record import Place
from .verdict import BACKWARD, ELSEWHERE, EVALUATION, FORWARD, OPTIMIZER

_BEGUN = {marks.BACKWARD: BACKWARD, marks.OPTIMIZER: OPTIMIZER}
_ENDED = {marks.AFTER_BACKWARD, marks.AFTER_OPTIMIZER}
# The first that fits counts: a parameter was copied from the host, too.
_BY_LABEL = (
    (verdict.PARAMETERS, verdict.PARAMETERS),
    (verdict.GRADIENTS, verdict.GRADIENTS),
    (verdict.OPTIMIZER_STATE, verdict.OPTIMIZER_STATE),
    (marks.WORKSPACE, verdict.WORKSPACES),
)
_BY_TRAIT = ((recorded.DISTRIBUTED, verdict.COMMUNICATION), (recorded.MODULE_MADE, verdict.PARAMETERS))
# What outlives the phase that it was made in, and what does not.
_OUTLIVING = {
    FORWARD: verdict.ACTIVATIONS,
    BACKWARD: verdict.GRADIENTS,
    OPTIMIZER: verdict.OPTIMIZER_STATE,
    EVALUATION: verdict.ACTIVATIONS,
}


@dataclasses.dataclass(slots=True, eq=False)
class Allocation(Block):
    phase: int = 0  # number of a stretch of Recording.stretches
    labels: frozenset[str] = frozenset()
    component: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of the run that is one phase's."""

    begins: int
    phase: str
    step: int


@dataclasses.dataclass(frozen=True)
class Use:
    """What the GPU had in use after an entry."""

    at: int
    used_bytes: int
    reserved_bytes: int
    live_bytes: int

    @property
    def needed(self) -> tuple[int, int]:
        """By what cannot be given back, then by all that is in use."""
        return self.used_bytes - self.reserved_bytes + self.live_bytes, self.used_bytes

    @property
    def used(self) -> tuple[int, int]:
        """By all that is in use, then by what of it was asked for."""
        return self.used_bytes, self.live_bytes


@dataclasses.dataclass(frozen=True)
class Recording:
    allocations: Sequence[Allocation]
    stretches: Sequence[Stretch]
    uses: Sequence[Use]
    end: int
    out_of_memory: int  # how often
    whole_steps: int  # those that were seen to their end
    calls: int  # of the model

    def largest_passing(self, component: str) -> int:
        """Bytes of the largest allocation of a component that was freed; 0: none was."""
        passing = (made.bytes for made in self.allocations if made.component == component and made.died != NEVER)
        return max(passing, default=0)

    def stretch_at(self, moment: int) -> Stretch:
        return self.stretches[self.stretch_number(moment)]

    def stretch_number(self, moment: int) -> int:
        """Of the stretch in which a moment lies."""
        return max(bisect.bisect_right(self.stretches, moment, key=lambda stretch: stretch.begins) - 1, 0)

    def reaches_model(self, made: Allocation) -> bool:
        """Whether it is there in a forward pass, or in evaluation."""
        last = len(self.stretches) if made.died == NEVER else self.stretch_number(made.died)
        return any(stretch.phase in (FORWARD, EVALUATION) for stretch in self.stretches[made.phase : last + 1])

    def component_of(self, made: Allocation, place: Place | None) -> str:
        """One of COMPONENTS; never WASTE or CONTEXT, which no allocation is."""
        for label, component in _BY_LABEL:
            if label in made.labels:
                return component
        traits = place.traits if place is not None else ()
        for trait, component in _BY_TRAIT:
            if trait in traits:
                return component
        if marks.COPIED_FROM_HOST in made.labels:
            return verdict.INPUTS
        phase = self.stretches[made.phase].phase
        # A training's are results that its backward pass needs.
        if recorded.CACHED in traits and phase in (EVALUATION, ELSEWHERE):
            return verdict.KEYS_AND_VALUES
        # A checkpoint's forward pass is done again in the backward pass; evaluation has little but layers' results.
        if phase == EVALUATION or (phase == BACKWARD and {recorded.MODULE_CALL, recorded.CHECKPOINTED} & set(traits)):
            return verdict.ACTIVATIONS
        # What is never freed outlives them all.
        last = len(self.stretches) if made.died == NEVER else self.stretch_number(made.died)
        if phase in _OUTLIVING:
            return _OUTLIVING[phase] if last > made.phase else verdict.TEMPORARIES
        # What a program makes outside of its phases and brings into one.
        if self.reaches_model(made):
            return verdict.INPUTS
        return verdict.TEMPORARIES if made.phase > 0 and last == made.phase else verdict.UNNAMED


def record(
    entries: Iterable[JournalEntry],
    gpu: int,
    texts: Sequence[str],
    sites: Mapping[int, Place],
    most_calls: int | None = None,
    trains: bool = True,
) -> Recording:
    """
    Args:
        most_calls: What comes after so many calls of the model is left out, in a program that trains nothing.
        trains: Else each call of the model counts as a step.
    """
    timeline, phases = Timeline(Allocation), PhaseTracker(trains)
    allocations: list[Allocation] = []
    uses: list[Use] = []
    live = out_of_memory = 0
    numbered = enumerate(entries)
    end = 0
    for end, entry in numbered:
        if entry.kind == journal.MARK:
            phases.mark(end, texts[entry.site])
            if texts[entry.site] == marks.END:
                break
        elif entry.kind == journal.LABEL:
            _label(timeline, gpu, entry, texts)
        elif entry.gpu == gpu:
            made = timeline.take(end, entry)
            if made is not None and entry.kind == journal.FREE_COMPLETED:
                live -= made.bytes
            elif made is not None and entry.kind == journal.ALLOCATION:
                live += made.bytes
                allocations.append(made)
                made.phase = phases.allocation(end, entry.flags, sites.get(entry.site))
            out_of_memory += entry.kind == journal.OUT_OF_MEMORY
            # PyTorch's allocators say that they give a segment back before they do.
            if entry.gpu_used >= 0 and entry.kind != journal.SEGMENT_GIVEN:
                uses.append(Use(end, entry.gpu_used, timeline.held[gpu], live))
        if most_calls is not None and phases.calls > most_calls:
            break
    _label_rest(timeline, gpu, (entry for _, entry in numbered), texts)
    stretches, calls = phases.stretches(), phases.calls
    whole = stretches[-1].step - 1
    if not trains:
        calls = whole = calls if most_calls is None else min(calls, most_calls)
    recording = Recording(allocations, stretches, uses, end, out_of_memory, whole, calls)
    for made in allocations:
        made.component = recording.component_of(made, sites.get(made.site))
    return recording


def _label_rest(
    timeline: Timeline[Allocation], gpu: int, entries: Iterable[JournalEntry], texts: Sequence[str]
) -> None:
    """What is labelled after the end may have been there before."""
    for entry in entries:
        if entry.kind == journal.LABEL:
            _label(timeline, gpu, entry, texts)
        elif entry.gpu == gpu and entry.kind in (journal.ALLOCATION, journal.FREE_COMPLETED):
            timeline.forget(entry)


def _label(timeline: Timeline[Allocation], gpu: int, entry: JournalEntry, texts: Sequence[str]) -> None:
    if (labelled := timeline.at(gpu, entry.address)) is not None:
        labelled.labels |= {texts[entry.site]}


class PhaseTracker:
    """Backward passes and optimizers' steps are marked. The rest is told by allocations within calls of modules: with
    gradients they are a forward pass, which lasts to the next mark, and without them evaluation.

    A model that is no module has its forward pass between the mark before a backward pass and that.
    """

    def __init__(self, trains: bool = True) -> None:
        #: Calls of modules from outside of any, as far as they allocated.
        self.calls = 0
        self._trains = trains
        self._stretches = [Stretch(0, ELSEWHERE, 1)]
        self._step = 1
        self._is_in_module = False

    def mark(self, at: int, text: str) -> None:
        if text == marks.STEP:
            self._step += 1
            self._begin(at, ELSEWHERE)
        elif text in _BEGUN:
            if text == marks.BACKWARD:
                self._led_to_backward()
            self._begin(at, _BEGUN[text])
        elif text in _ENDED:
            self._begin(at, ELSEWHERE)

    def allocation(self, at: int, flags: int, place: Place | None) -> int:
        """Returns the number of the stretch that it is in.

        Args:
            flags: Those of its entry.
        """
        # What a sharded module gathers before its own forward pass begins is no evaluation.
        is_for_others = place is not None and recorded.DISTRIBUTED in place.traits
        is_in_module = bool(flags & journal.IN_MODULE) and not is_for_others
        phase = self._stretches[-1].phase
        if is_in_module and not self._is_in_module:
            self.calls += phase in (ELSEWHERE, FORWARD, EVALUATION)
            if not self._trains and self.calls > self._step:
                self._step = self.calls
                self._begin(at, phase)
        self._is_in_module = is_in_module
        if is_in_module:
            if flags & journal.WITH_GRADIENTS and phase in (ELSEWHERE, EVALUATION):
                self._begin(at, FORWARD)
            elif not flags & journal.WITH_GRADIENTS and phase == ELSEWHERE:
                self._begin(at, EVALUATION)
        return len(self._stretches) - 1

    def stretches(self) -> Sequence[Stretch]:
        return self._stretches

    def _led_to_backward(self) -> None:
        """A compiled model computes without gradients and keeps by itself what its backward pass needs."""
        latest = self._stretches[-1]
        if latest.phase == EVALUATION or (latest.phase == ELSEWHERE and len(self._stretches) > 1):
            self._stretches[-1] = dataclasses.replace(latest, phase=FORWARD)

    def _begin(self, at: int, phase: str) -> None:
        self._stretches.append(Stretch(at, phase, self._step))
