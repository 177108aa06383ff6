"""Starts the program on the simulated GPU with the agent in it, and reads what that leaves behind."""

from __future__ import annotations

import dataclasses
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..._common.installation import MissingPart
from ..._common.messages import Refused, format_bytes
from ..._native.journal import JournalEntry
from ..._replay import history_builder, replays
from ..._replay.history import Malformed
from ..._simulation import followed, simulated_gpu
from ..._simulation.followed import Ended, Message
from ..._simulation.modelled_machine import ModelledMachine
from ..._simulation.simulated_gpu import Output, SimulationError
from . import breakdown, process_record, recording
from .process_record import ProcessRecord
from .verdict import CONTEXT, INTERRUPTED_STATUS, WORKSPACES, Gpu, RankPeaks

_NO_REPORTS = "report_dir:off"
# What a program on the GPU moves is kept up to this size: sizes, lengths and masks, but no batches of images.
_KEPT = 1 << 20
# Of the smallest GPU, as a part of the most that is live; and more than any GPU has.
_TOLERANCE, _PLENTY = 0.002, 1 << 41


class NotFollowed(Refused):
    """Nothing can be said of the program; the message is one line that says why and what to do."""


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


@dataclasses.dataclass(frozen=True)
class Run:
    """What came of it."""

    exit_status: int
    records: tuple[ProcessRecord, ...]
    ranks: tuple[RankPeaks, ...]
    steps: int
    # How often memory ran out, on all ranks.
    ran_out: int
    # The largest workspace that a routine was given for itself. cuBLAS's are kept, and as large as PyTorch chooses.
    routines_workspace_bytes: int = 0
    # The smallest GPU on which each rank's requests could be met; None: it was not asked for, or cannot be said.
    needs_bytes: int | None = None
    # A signal came that ends programs, whether or not this one has ended by it.
    is_interrupted: bool = False


def run(
    command: Sequence[str],
    setup: Setup,
    *,
    beyond: str | None = None,
    output: Output = Output.SHOWN,
    advance: Callable[[int], None] = lambda steps: None,
) -> Run:
    """
    Args:
        beyond: The GPU says that it has its memory, and has as much as the program asks for. Then it is found out how
            much that needs with the allocator of this name.
        output: What becomes of the program's output.
        advance: Is told how many steps have ended.

    Raises:
        SimulationError: the program cannot be started.
        NotFollowed: its PyTorch is not one that can be followed, or what is left of it is damaged.
    """

    def hear(message: Message) -> None:
        if process_record.STEPS_ENDED in message:
            advance(message[process_record.STEPS_ENDED])

    with tempfile.TemporaryDirectory(prefix="frugal_alloc_fit_", ignore_cleanup_errors=True) as folder:
        environment = _environment(setup, folder, beyond is not None)
        try:
            ended = followed.run(command, environment, folder, output, hear)
            records = tuple(process_record.read_all(ended.messages))
        except ValueError as error:
            raise NotFollowed(f"what was recorded of the program is damaged ({error}); start it again") from None
        for message in ended.messages:
            if process_record.REFUSED in message:
                raise NotFollowed(message[process_record.REFUSED])
        return _read(ended, records, setup, beyond)


def _environment(setup: Setup, folder: str, beyond: bool) -> dict[str, str]:
    if setup.gpu.memory_bytes <= setup.gpu.context_bytes:
        kept = format_bytes(setup.gpu.context_bytes)
        raise SimulationError(
            f"{format_bytes(setup.gpu.memory_bytes)} is too little memory for a GPU: a context takes {kept} of it"
        )
    base = {**os.environ, **setup.machine, "FRUGAL_SIM_CONTEXT": str(setup.gpu.context_bytes)}
    # What an out-of-memory error would write beside the program is said here.
    settings = os.environ.get("FRUGAL_ALLOC_CONF")
    base["FRUGAL_ALLOC_CONF"] = f"{settings},{_NO_REPORTS}" if settings else _NO_REPORTS
    machine = ModelledMachine(
        kept=_KEPT if setup.values == "none" else None,
        modelled_time=True,
        beyond=beyond,
        ends_unsupported=setup.is_strict,
    )
    environment = simulated_gpu.environment(
        setup.gpu.memory_bytes, setup.gpus, setup.values, base=base, machine=machine
    )
    steps = {"steps": setup.steps, "calls": setup.calls}
    return followed.put(environment, "_command.fit.program.agent", folder, setup.allocator, **steps)


def _read(ended: Ended, records: tuple[ProcessRecord, ...], setup: Setup, beyond: str | None) -> Run:
    # A program that has its own way to end by a signal may say 1 or 0, which would be a verdict.
    status = ended.status if ended.signal is None else 128 + ended.signal
    ranks: list[RankPeaks] = []
    needed: list[int | None] = []
    ran_out = workspace = 0
    for number, record in enumerate(records):
        was_cut = record.ended == process_record.STEPS and record.steps == 0
        most_calls = setup.calls if was_cut else None
        for gpu, counted in record.counted.items():
            entries = record.entries(setup.gpu.context_bytes)
            recorded = recording.record(entries, gpu, record.texts, record.places, most_calls)
            ran_out += recorded.out_of_memory
            workspace = max(workspace, recorded.largest_passing(WORKSPACES))
            peaks = breakdown.peaks(
                recorded,
                record.places,
                rank=record.rank if record.rank >= 0 else number,
                gpu=gpu,
                # What was counted up to the program's end says nothing of a part of it.
                counted=counted if most_calls is None else None,
                is_half=record.is_half,
            )
            if peaks is None:
                continue
            ranks.append(peaks)
            if beyond is not None:
                requests = itertools.islice(record.entries(), recorded.end)
                needed.append(_smallest_bytes(requests, gpu, beyond, peaks.peak.components.get(CONTEXT, 0)))
    return Run(
        exit_status=status,
        records=records,
        ranks=tuple(ranks),
        steps=max((record.steps for record in records), default=0),
        ran_out=ran_out,
        routines_workspace_bytes=workspace,
        needs_bytes=None if not needed or None in needed else max(size for size in needed if size is not None),
        is_interrupted=ended.signal is not None or status == INTERRUPTED_STATUS,
    )


def _smallest_bytes(entries: Iterable[JournalEntry], gpu: int, allocator: str, context_bytes: int) -> int | None:
    """The smallest GPU on which the requests can be met, by replaying them; of its bytes the context takes
    `context_bytes`. None: it cannot be said.

    A program that does other things when memory runs out may do with less.
    """
    builder = history_builder.HistoryBuilder()
    try:
        for entry in entries:
            if entry.gpu == gpu and entry.kind in history_builder.KINDS:
                builder.take(entry)
        history = builder.history("program")
        measured = replays.Replayer().measure(history, allocator, _PLENTY, True, passes=1, tolerance=_TOLERANCE)
    except (Malformed, replays.ReplayError, MissingPart):
        return None
    return None if measured.min_capacity_bytes is None else measured.min_capacity_bytes + context_bytes
