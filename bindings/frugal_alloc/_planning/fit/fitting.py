"""Says whether a program fits: runs it as it would run there, and if memory runs out, once more with enough."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

import simulated_gpu
from simulated_gpu import ModelledMachine, Output, SimulationError

from ..._common.installation import MissingPart
from ..._common.messages import Refused, format_bytes
from .. import followed, following
from ..replay import history_builder, replays
from ..replay.history import History, Malformed
from . import breakdown, changes, process_record, recording, verdict
from .changes import Traits
from .process_record import ProcessRecord
from .verdict import (
    CONTEXT,
    EVALUATION,
    FAILED,
    INTERRUPTED,
    ITSELF,
    OUT_OF_MEMORY,
    STEPS,
    Change,
    Gpu,
    Inputs,
    RankPeaks,
    Verdict,
)

_NO_REPORTS = "report_dir:off"
# What a program on the GPU moves is kept up to this size: sizes, lengths and masks, but no batches of images.
_KEPT = 1 << 20
# Of the smallest GPU, as a part of the most that is live; and more than any GPU has.
_TOLERANCE, _PLENTY = 0.002, 1 << 41
# Of the peak, or of a step's inputs: what is less is not worth a sentence.
_LEAST_PART = 0.01

Advance = Callable[[int], None]


class NotFollowed(Refused):
    """Nothing can be said of the program; the message is one line that says why and what to do."""


class NoKernels(NotFollowed):
    """Its PyTorch has none for the GPU."""

    def __init__(self, why: str, built_for: Sequence[str]) -> None:
        super().__init__(why)
        self.built_for = built_for


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a program is run on, and how."""

    gpu: Gpu
    gpus: int
    # Variables of the simulated machine: its model, and that it models workspaces.
    machine: Mapping[str, str]
    allocator: str
    values: str
    # The program is ended after so many steps, or calls of its model where it has no steps; None: it runs to its end.
    steps: int | None
    calls: int | None = None
    is_strict: bool = False
    # Loaders give the largest of their batches first.
    longest: bool = False
    # The GPU's compute capability, for which PyTorch has to have kernels; "": any.
    capability: str = ""


@dataclasses.dataclass
class Run:
    """What came of a program."""

    exit_status: int
    # A signal came that ends programs, whether or not this one has ended by it.
    is_interrupted: bool
    records: tuple[ProcessRecord, ...]
    ranks: list[RankPeaks] = dataclasses.field(default_factory=list)
    # How often memory ran out, on all ranks.
    ran_out: int = 0
    # The largest workspace that a routine was given for itself. cuBLAS's are kept, and as large as PyTorch chooses.
    routines_workspace_bytes: int = 0
    calls: int = 0
    # Of each rank what it asked for, and what the context takes beside that, if that was asked for; None: it cannot be
    # replayed.
    histories: list[tuple[History | None, int]] = dataclasses.field(default_factory=list)

    @property
    def ended(self) -> str:
        if self.is_interrupted:
            return INTERRUPTED
        if any(record.error for record in self.records) or (self.exit_status != 0 and self.ran_out):
            return OUT_OF_MEMORY
        if self.exit_status != 0:
            return FAILED
        return STEPS if any(record.ended == process_record.STEPS for record in self.records) else ITSELF

    @property
    def fits(self) -> bool | None:
        """None: it cannot be said."""
        if self.ended == OUT_OF_MEMORY:
            return False
        return True if self.ended in (STEPS, ITSELF) and self.ranks else None


def fit(
    command: Sequence[str],
    setup: Setup,
    advance: Advance = lambda steps: None,
    *,
    output: Output = Output.SHOWN,
    finds_need: bool = True,
) -> Verdict:
    """
    Args:
        advance: Is told how many steps have ended.
        finds_need: A program that does not fit is run once more, on a GPU that has enough, to say how much that is.

    Raises:
        SimulationError: the program cannot be started.
        NotFollowed: its PyTorch is not one that can be followed, or what is left of it is damaged.
    """
    began = time.monotonic()
    first = shown = run(command, setup, output=output, advance=advance)
    allocator = next((record.allocator for record in first.records), setup.allocator)
    settings = next((record.settings for record in first.records), "")
    needs_bytes, advised = None, ()
    if first.ended == OUT_OF_MEMORY and finds_need:
        beyond = _followed_to_its_end(command, setup, allocator, advance)
        if beyond.ranks and not beyond.ran_out and not beyond.is_interrupted:
            shown = beyond
            needs_bytes, advised = _needs(beyond, allocator, settings)
    worst = verdict.worst_of(shown.ranks)
    if worst is not None:
        advised = tuple(sorted((*advised, *worst.changes), key=lambda change: -change.bytes))
    return Verdict(
        command=tuple(command),
        gpu=setup.gpu,
        gpus=setup.gpus,
        allocator=allocator,
        fits=first.fits,
        ended=first.ended,
        exit_status=first.exit_status,
        steps=max((record.steps for record in first.records), default=0),
        calls=first.calls,
        needs_bytes=needs_bytes,
        ranks=tuple(shown.ranks),
        changes=_with_advice(first.records, advised),
        guesses=_guesses(first),
        not_modelled=_not_modelled(first, worst, setup),
        not_seen=_not_seen(first, worst, setup),
        largest_so_far=_largest_so_far(first, worst),
        error=next((record.error.partition("\n")[0].strip() for record in first.records if record.error), ""),
        seconds=time.monotonic() - began,
    )


def _followed_to_its_end(command: Sequence[str], setup: Setup, allocator: str, advance: Advance) -> Run:
    """Its output has been seen; what it says of itself there is that it fits."""
    done = run(command, setup, beyond=True, output=Output.HIDDEN, advance=advance)
    if done.ran_out and not done.is_interrupted and allocator == "frugal":
        # It refuses a single request that is larger than the GPU by itself. What it needs follows from the requests.
        native = dataclasses.replace(setup, allocator="native")
        done = run(command, native, beyond=True, output=Output.HIDDEN, advance=advance)
    return done


def _needs(beyond: Run, allocator: str, settings: str) -> tuple[int | None, tuple[Change, ...]]:
    """What the program needs with the allocator that it has, and what frugal_alloc would save of that."""
    needed = [_smallest_bytes(*history, allocator, settings) for history in beyond.histories]
    if None in needed:
        return None, ()
    most, history = max(zip(needed, beyond.histories, strict=True), key=lambda rank: rank[0] or 0)
    frugal = _smallest_bytes(*history, "frugal", "") if allocator != "frugal" else None
    if most is None or frugal is None or most - frugal < changes.LEAST_PART * most:
        return most, ()
    return most, (Change(f"frugal_alloc.enable(): the program then needs {format_bytes(frugal)}", most - frugal),)


def _with_advice(records: Sequence[ProcessRecord], advised: tuple[Change, ...]) -> tuple[Change, ...]:
    """What the out-of-memory error itself says to change, and what the peak of the whole run says.

    Of the error's advice that which is about no line counts what the one request lacked. The rest of the run may need
    far more, so it is only said where nothing else is.
    """
    advice = next((record.advice for record in records if record.advice), ())
    of_lines = tuple(Change(text, size) for text, size, is_of_line in advice if is_of_line)
    return (of_lines + advised)[: changes.MOST] or tuple(Change(text, size) for text, size, _ in advice)


def _guesses(done: Run) -> tuple[str, ...]:
    sentences = {sentence: None for record in done.records for sentence in record.guesses}
    if done.ran_out and done.ended != OUT_OF_MEMORY:
        times = "once" if done.ran_out == 1 else f"{done.ran_out} times"
        sentences[f"memory ran out {times}, and the program went on by its own means"] = None
    return tuple(sentences)


def _not_seen(done: Run, worst: RankPeaks | None, setup: Setup) -> tuple[str, ...]:
    """Of a program that was ended before its time."""
    if worst is None or done.ended != STEPS:
        return ()
    trains = any(record.trains for record in done.records)
    has_evaluation = not trains or any(moment.phase == EVALUATION for moment in worst.phases)
    sentences = [f"what comes later{'' if has_evaluation else ', as an evaluation'}: --steps 0 runs it to its end"]
    largest = _largest_so_far(done, worst)
    if setup.longest and not any(record.reordered for record in done.records):
        sentences.append("the longest batches: --longest found no DataLoader whose dataset has items by index")
    elif largest is not None:
        unit = "step" if trains else "call"
        sentences.append(
            f"longer batches than that of {unit} {largest.step}, which was given {format_bytes(largest.most_bytes)}: "
            "--longest has DataLoaders give their longest first"
        )
    return tuple(sentences)


def _largest_so_far(done: Run, worst: RankPeaks | None) -> Inputs | None:
    given = worst.inputs if worst is not None else None
    if given is None or done.ended != STEPS or given.most_bytes - given.least_bytes < _LEAST_PART * given.most_bytes:
        return None
    return None if any(record.reordered for record in done.records) else given


def _not_modelled(done: Run, worst: RankPeaks | None, setup: Setup) -> tuple[str, ...]:
    names = sorted({name for record in done.records for name in record.not_simulated})
    sentences = [f"{name} was called and is not simulated: what it takes is not counted" for name in names]
    if worst is None:
        return tuple(sentences)
    if done.routines_workspace_bytes >= _LEAST_PART * worst.peak.used_bytes:
        size = format_bytes(done.routines_workspace_bytes)
        sentences.append(
            f"workspaces of single routines (up to {size}): their sizes are a model that nobody has measured"
        )
    managed = max((size for record in done.records for size in record.managed.values()), default=0)
    if managed:
        sentences.append(
            f"managed memory ({format_bytes(managed)}, in the context), which bitsandbytes' paged optimizers have: all "
            "of it counts, though CUDA moves it to the host where the GPU is full"
        )
    of_libraries = worst.peak.components.get(CONTEXT, 0) - setup.gpu.context_bytes - managed
    if of_libraries > 0:
        size = format_bytes(of_libraries)
        sentences.append(f"NCCL's buffers ({size}, in the context): their sizes are a model that nobody has measured")
    return tuple(sentences)


def run(
    command: Sequence[str],
    setup: Setup,
    *,
    beyond: bool = False,
    output: Output = Output.SHOWN,
    advance: Advance = lambda steps: None,
) -> Run:
    """Runs the program on the simulated GPU with the agent in it, and reads what that leaves behind; raises as fit().

    Args:
        beyond: The GPU says that it has its memory, and has as much as the program asks for. What that was is kept.
        output: What becomes of the program's output.
    """

    def hear(message: followed.Message) -> None:
        if process_record.STEPS_ENDED in message:
            advance(message[process_record.STEPS_ENDED])

    with tempfile.TemporaryDirectory(prefix="frugal_alloc_fit_", ignore_cleanup_errors=True) as folder:
        environment = _environment(setup, folder, beyond)
        try:
            ended = following.run(command, environment, folder, output, hear)
            records = tuple(process_record.read_all(ended.messages))
        except ValueError as error:
            raise NotFollowed(f"what was recorded of the program is damaged ({error}); start it again") from None
        for message in ended.messages:
            if process_record.BUILT_FOR in message:
                raise NoKernels(message[process_record.REFUSED], message[process_record.BUILT_FOR])
            if process_record.REFUSED in message:
                raise NotFollowed(message[process_record.REFUSED])
        # A program that has its own way to end by a signal may say 1 or 0, which would be a verdict.
        status = ended.status if ended.signal is None else 128 + ended.signal
        done = Run(status, ended.signal is not None or status == verdict.INTERRUPTED_STATUS, records)
        for number, record in enumerate(records):
            _read(done, number, record, setup, beyond)
        return done


def _environment(setup: Setup, folder: str, beyond: bool) -> dict[str, str]:
    if setup.gpu.memory_bytes <= setup.gpu.context_bytes:
        kept = format_bytes(setup.gpu.context_bytes)
        raise SimulationError(
            f"{format_bytes(setup.gpu.memory_bytes)} is too little memory for a GPU: a context takes {kept} of it"
        )
    base = {**os.environ, **setup.machine, "FRUGAL_SIM_CONTEXT": str(setup.gpu.context_bytes)}
    # What an out-of-memory error would write beside the program is said here.
    base["FRUGAL_ALLOC_CONF"] = ",".join(filter(None, [base.get("FRUGAL_ALLOC_CONF"), _NO_REPORTS]))
    machine = ModelledMachine(
        kept=_KEPT if setup.values == "none" else None,
        modelled_time=True,
        beyond=beyond,
        ends_unsupported=setup.is_strict,
    )
    environment = simulated_gpu.environment(
        setup.gpu.memory_bytes, setup.gpus, setup.values, base=base, machine=machine
    )
    options = {name: getattr(setup, name) for name in ("steps", "calls", "longest", "capability")}
    return followed.put(environment, "_planning.fit.agent", folder, setup.allocator, **options)


def _read(done: Run, number: int, record: ProcessRecord, setup: Setup, beyond: bool) -> None:
    """Adds what a process, the one of that number, has recorded of its GPUs."""
    was_cut = record.ended == process_record.STEPS and record.steps == 0
    most_calls = setup.calls if was_cut else None
    for gpu, counted in record.counted.items():
        entries = record.entries(setup.gpu.context_bytes)
        recorded = recording.record(entries, gpu, record.texts, record.places, most_calls, record.trains)
        done.calls = max(done.calls, 0 if record.trains else recorded.calls)
        done.ran_out += recorded.out_of_memory
        done.routines_workspace_bytes = max(done.routines_workspace_bytes, recorded.largest_passing(verdict.WORKSPACES))
        peaks = breakdown.peaks(
            recorded,
            record.places,
            rank=record.rank if record.rank >= 0 else number,
            gpu=gpu,
            # What was counted up to the program's end says nothing of a part of it.
            counted=counted if most_calls is None else None,
            traits=Traits(record.is_half, record.can_fuse),
        )
        if peaks is None:
            continue
        done.ranks.append(peaks)
        if beyond:
            done.histories.append((_history(recorded), peaks.peak.components.get(CONTEXT, 0)))


def _history(recorded: recording.Recording) -> History | None:
    """What was asked for; None: it cannot be replayed."""
    try:
        return history_builder.packed("program", [made for made in recorded.allocations if made.born < recorded.end])
    except Malformed:
        return None


def _smallest_bytes(history: History | None, context_bytes: int, allocator: str, settings: str) -> int | None:
    """The smallest GPU on which the requests can be met, by replaying them; of its bytes the context takes
    `context_bytes`. None: it cannot be said.

    A program that does other things when memory runs out may do with less.
    """
    if history is None:
        return None
    try:
        replayer = replays.Replayer(settings=settings)
        measured = replayer.measure(history, allocator, _PLENTY, True, passes=1, tolerance=_TOLERANCE)
    except (replays.ReplayError, MissingPart):
        return None
    return None if measured.min_capacity_bytes is None else measured.min_capacity_bytes + context_bytes
