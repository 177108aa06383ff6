"""What ``frugal-alloc fit`` has found out. All sizes are in bytes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

#: Of the JSON form: goes up when a field changes its meaning or goes away.
VERSION = 1

#: What a program does with its memory at a time. ELSEWHERE: before, between and after the others.
FORWARD, BACKWARD, OPTIMIZER, EVALUATION, ELSEWHERE = "forward", "backward", "optimizer step", "evaluation", "elsewhere"
PHASES = (FORWARD, BACKWARD, OPTIMIZER, EVALUATION, ELSEWHERE)

#: What memory is for. UNNAMED: none of the others; WASTE: what the allocator holds beyond what was asked for.
PARAMETERS, GRADIENTS, OPTIMIZER_STATE = "parameters", "gradients", "optimizer state"
ACTIVATIONS, INPUTS, COMMUNICATION = "activations", "inputs", "communication"
TEMPORARIES, WORKSPACES, UNNAMED, WASTE, CONTEXT = "temporaries", "workspaces", "unnamed", "waste", "context"
COMPONENTS = (
    PARAMETERS,
    GRADIENTS,
    OPTIMIZER_STATE,
    ACTIVATIONS,
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
class Savings:
    """Estimates of what a change of the program would save of the most that it needs."""

    half_batch_bytes: int = 0
    checkpoints_bytes: int = 0
    # What checkpoints would let go: the line that has most of it; None: nothing.
    checkpoints_line: HeldByLine | None = None


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
    savings: Savings = Savings()

    @property
    def most_used_bytes(self) -> int:
        """Of the GPU at a time, which need not be when most was needed: an allocator keeps what it has."""
        return max(self.peak.used_bytes, *(sample.used_bytes for sample in self.series), 0)


@dataclasses.dataclass(frozen=True)
class Change:
    """What would make it smaller."""

    text: str
    bytes: int
    is_estimate: bool = False  # else counted, of what the peak holds


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
    allocator: str  # "frugal", "native" or "expandable"
    # None: the program failed by itself, or was ended, before anything could be said.
    fits: bool | None
    # Why it ended: STEPS, ITSELF, OUT_OF_MEMORY, FAILED or INTERRUPTED.
    ended: str
    exit_status: int
    steps: int
    # The smallest GPU's memory, the context included, on which all of the recorded requests can be met; None where it
    # fits, or was not found.
    needs_bytes: int | None
    ranks: tuple[RankPeaks, ...]
    changes: tuple[Change, ...]
    # Sentences: shapes that were made up, times that memory ran out and the program went on, ...
    guesses: tuple[str, ...]
    # Sentences: what the program used and the simulation does not model, or models by figures that nobody measured.
    not_modelled: tuple[str, ...]
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


def worst_of(ranks: Sequence[RankPeaks]) -> RankPeaks | None:
    """The rank that needs most."""
    return max(ranks, key=lambda rank: rank.most_used_bytes, default=None)


def to_json(verdicts: Sequence[Verdict]) -> str:
    """An object with the version and the verdict of each allocator, by the names of fields."""

    def fields(verdict: Verdict) -> dict[str, object]:
        worst = verdict.worst
        return dataclasses.asdict(verdict) | {"peak_bytes": None if worst is None else worst.most_used_bytes}

    return json.dumps({"version": VERSION, "verdicts": [fields(verdict) for verdict in verdicts]}, indent=1)
