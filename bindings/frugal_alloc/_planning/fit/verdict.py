"""What ``frugal-alloc fit`` has found out. All sizes are in bytes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..._common import shapes

#: Of the JSON form: goes up when a field changes its meaning or goes away.
VERSION = 2

#: What a program does with its memory at a time. ELSEWHERE: before, between and after the others.
FORWARD, BACKWARD, OPTIMIZER, EVALUATION, ELSEWHERE = "forward", "backward", "optimizer step", "evaluation", "elsewhere"
PHASES = (FORWARD, BACKWARD, OPTIMIZER, EVALUATION, ELSEWHERE)

#: What memory is for. UNNAMED: none of the others; WASTE: what the allocator holds beyond what was asked for.
PARAMETERS, GRADIENTS, OPTIMIZER_STATE = "parameters", "gradients", "optimizer state"
ACTIVATIONS, KEYS_AND_VALUES, INPUTS, COMMUNICATION = "activations", "keys and values", "inputs", "communication"
TEMPORARIES, WORKSPACES, UNNAMED, WASTE, CONTEXT = "temporaries", "workspaces", "unnamed", "waste", "context"
COMPONENTS = (
    PARAMETERS,
    GRADIENTS,
    OPTIMIZER_STATE,
    ACTIVATIONS,
    KEYS_AND_VALUES,
    INPUTS,
    COMMUNICATION,
    TEMPORARIES,
    WORKSPACES,
    UNNAMED,
    WASTE,
    CONTEXT,
)

#: Why a run ended: its steps were enough, or it by itself, ...
STEPS, ITSELF, OUT_OF_MEMORY = "steps", "itself", "out of memory"
FAILED, INTERRUPTED = "failed", "interrupted"
INTERRUPTED_STATUS = 130  # as shells have it, of Ctrl-C
# No job makes more steps.
_MOST_STEPS = 1_000_000


@dataclasses.dataclass(frozen=True)
class CodeLine:
    """A line of the program's own; in a backward pass that of the forward pass."""

    file: str
    line: int
    function: str


@dataclasses.dataclass(frozen=True)
class HeldByLine:
    """What a line holds of one component at the peak."""

    where: CodeLine | None  # None: no line of the program's own asked for it
    component: str
    bytes: int
    blocks: int


@dataclasses.dataclass(frozen=True)
class Moment:
    """The moment at which most was needed: all that is in use but what the allocator could give back."""

    phase: str
    step: int  # from 1; that which ran, or was about to
    where: CodeLine | None  # what asked for memory then
    used_bytes: int
    # used_bytes == sum(components.values()); those of COMPONENTS that have any
    components: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Sample:
    """A stretch of the run, for a picture: what was in use when it was most."""

    phase: str
    step: int
    used_bytes: int
    components: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Change:
    """What would make it smaller."""

    text: str
    bytes: int  # that it saves of the most that is asked for at a time
    is_estimate: bool = False  # else counted


@dataclasses.dataclass(frozen=True)
class Growth:
    """What each step leaves behind for good, after the first."""

    bytes: int
    needed_bytes: int  # by which the most that is needed grows
    where: CodeLine | None  # the line that asks for most of it


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Bytes that a step is given, from the host or made outside of the model."""

    least_bytes: int
    most_bytes: int
    step: int  # that was given most


@dataclasses.dataclass(frozen=True)
class RankPeaks:
    """One GPU of one process of the program."""

    rank: int
    gpu: int
    peak: Moment
    # One for each phase that there was, in the order of PHASES.
    phases: tuple[Moment, ...]
    # At the peak, the most first; all of them: their bytes are those of all components but WASTE and CONTEXT.
    lines: tuple[HeldByLine, ...]
    series: tuple[Sample, ...]
    # As PyTorch's allocator has counted them; where the run was cut after so many calls, as the journal says.
    requested_peak_bytes: int
    reserved_peak_bytes: int
    changes: tuple[Change, ...] = ()  # the most useful first
    growth: Growth | None = None
    inputs: Inputs | None = None

    @property
    def most_used_bytes(self) -> int:
        """Of the GPU at a time, which need not be when most was needed: an allocator keeps what it has."""
        return max(self.peak.used_bytes, *(sample.used_bytes for sample in self.series), 0)

    def full_in_step(self, memory_bytes: int) -> int | None:
        """The step in which that much memory is full, if it goes on to grow so; None: it does not grow."""
        if self.growth is None:
            return None
        needed = self.peak.used_bytes - self.peak.components.get(WASTE, 0)
        step = self.peak.step + max(memory_bytes - needed, 0) // self.growth.needed_bytes + 1
        return step if step <= _MOST_STEPS else None


@dataclasses.dataclass(frozen=True)
class Gpu:
    """What the program was told it runs on."""

    name: str
    memory_bytes: int
    context_bytes: int
    # Of its memory and of its context, as in gpu_models.json; "" where the user gave them, or nothing is known of them.
    source: str
    context_source: str = ""


@dataclasses.dataclass(frozen=True)
class Tried:
    """A run of a search: an argument's value or a GPU's name, and whether it fits."""

    value: str
    fits: bool | None  # None: as in a Verdict
    used_bytes: int
    ended: str = ""
    exit_status: int = 0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Of one allocator. The program was run to its end or for `steps` steps."""

    command: tuple[str, ...]
    gpu: Gpu
    gpus: int
    allocator: str  # that the program had: "native", "expandable" or "frugal"
    # None: the program failed by itself, or was ended, before anything could be said.
    fits: bool | None
    # Why it ended: STEPS, ITSELF, OUT_OF_MEMORY, FAILED or INTERRUPTED.
    ended: str
    exit_status: int
    # Of its optimizer; and in a program that trains nothing, calls of its model.
    steps: int
    calls: int
    # The smallest GPU's memory, the context included, on which all of the recorded requests can be met; None where it
    # fits, or was not found.
    needs_bytes: int | None
    ranks: tuple[RankPeaks, ...]
    changes: tuple[Change, ...]
    # Sentences: shapes that were made up, times that memory ran out and the program went on, ...
    guesses: tuple[str, ...]
    # Sentences: what the program used and the simulation does not model, or models by figures that nobody measured.
    not_modelled: tuple[str, ...]
    # Sentences: what the program may do later and was not seen to.
    not_seen: tuple[str, ...] = ()
    # The largest inputs of a step, where they differ, and larger ones may come; None: they do not.
    largest_so_far: Inputs | None = None
    # The out-of-memory error's first line; "" if there was none.
    error: str = ""
    # Of --find-batch and --find-gpu: "--batch-size" or "GPU", the runs in order, and what was found ("" for none).
    searched: str = ""
    tried: tuple[Tried, ...] = ()
    found: str = ""
    # What was found is the last value of the range: a larger one may fit.
    found_is_last: bool = False
    seconds: float = 0.0

    @property
    def worst(self) -> RankPeaks | None:
        return worst_of(self.ranks)

    @property
    def is_good(self) -> bool | None:
        """Whether it fits and will go on to; None: it cannot be said."""
        return self.fits and self.fills is None

    @property
    def unit(self) -> str:
        """What is counted."""
        return "call" if self.calls and not self.steps else "step"

    @property
    def fills(self) -> tuple[int, Growth] | None:
        """The step in which memory will be full and what it grows by, of the rank that comes first; None: that was not
        seen, or the program was followed to its end."""
        full = [
            (step, rank.growth)
            for rank in self.ranks
            if (step := rank.full_in_step(self.gpu.memory_bytes)) is not None and rank.growth is not None
        ]
        return min(full, key=lambda found: found[0], default=None) if self.fits and self.ended == STEPS else None


def worst_of(ranks: Sequence[RankPeaks]) -> RankPeaks | None:
    """The rank that needs most."""
    return max(ranks, key=lambda rank: rank.most_used_bytes, default=None)


def of_document(document: Mapping[str, Any]) -> list[Verdict]:
    """What to_json() has written and was parsed.

    Raises:
        Misshapen: it is none of this version; the message is one line.
    """
    if document.get("version") != VERSION:
        raise shapes.Misshapen(
            f"version {document.get('version')!r:.20} of a verdict of fit is not {VERSION}; run it again"
        )
    return list(shapes.read(_Document, document).verdicts)


@dataclasses.dataclass(frozen=True)
class _Document:
    verdicts: tuple[Verdict, ...]


def to_json(verdicts: Sequence[Verdict]) -> str:
    """An object with the version and the verdict of each allocator, by the names of fields."""

    def fields(verdict: Verdict) -> dict[str, object]:
        worst = verdict.worst
        return dataclasses.asdict(verdict) | {
            "peak_bytes": None if worst is None else worst.most_used_bytes,
            "full_in_step": verdict.fills[0] if verdict.fills else None,
        }

    return json.dumps({"version": VERSION, "verdicts": [fields(verdict) for verdict in verdicts]}, indent=1)
