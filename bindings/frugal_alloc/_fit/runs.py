"""Starts the program on the simulated GPU with the agent in it, and reads what that leaves behind."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from .._common import startup
from .._common.messages import Refused, format_bytes
from .._simulation import simulated_gpu
from .._simulation.modelled_machine import ModelledMachine
from .._simulation.simulated_gpu import Output, SimulationError
from . import allocations, breakdown, journal, needs, process_record
from .orders import Orders
from .process_record import ProcessRecord
from .verdict import CONTEXT, INTERRUPTED_STATUS, WORKSPACES, Gpu, RankPeaks

_SETTINGS = {"expandable": "expandable_segments:True"}
_NO_REPORTS = "report_dir:off"
# What a program on the GPU moves is kept up to this size: sizes, lengths and masks, but no batches of images.
_KEPT = 1 << 20
_LOOK_EVERY_SECONDS = 0.2


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
    folder = Path(tempfile.mkdtemp(prefix="frugal_alloc_fit_"))
    try:
        environment = _environment(setup, folder, beyond is not None)
        signals: list[int] = []
        with _steps_told(folder, advance):
            status = simulated_gpu.run_in(command, environment, output, signals.append)
        if (reason := process_record.refusal(folder)) is not None:
            raise NotFollowed(reason)
        ending = next((number for number in signals if number in simulated_gpu.ENDING_SIGNALS), None)
        # One that has its own way to end by a signal may say 1 or 0, which would be a verdict.
        status = status if ending is None else 128 + ending
        return dataclasses.replace(
            _read(folder, status, setup, beyond), is_interrupted=ending is not None or status == INTERRUPTED_STATUS
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(setup: Setup, folder: Path, beyond: bool) -> dict[str, str]:
    if setup.gpu.memory_bytes <= setup.gpu.context_bytes:
        kept = format_bytes(setup.gpu.context_bytes)
        raise SimulationError(
            f"{format_bytes(setup.gpu.memory_bytes)} is too little memory for a GPU: a context takes {kept} of it"
        )
    base = {**os.environ, **setup.machine, "FRUGAL_SIM_CONTEXT": str(setup.gpu.context_bytes)}
    if setup.allocator in _SETTINGS:
        base["PYTORCH_CUDA_ALLOC_CONF"] = _SETTINGS[setup.allocator]
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
    environment |= Orders(str(folder), setup.allocator, setup.steps, setup.calls).to_environment()
    startup.add("fit", environment)
    return environment


@contextlib.contextmanager
def _steps_told(folder: Path, advance: Callable[[int], None]) -> Iterator[None]:
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_EVERY_SECONDS):
            advance(process_record.told_steps(folder))

    # The thread is to leave all signals to the one that waits for the program.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, simulated_gpu.SIGNALS | {signal.SIGCHLD})
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield
    finally:
        over.set()
        thread.join()


def _read(folder: Path, status: int, setup: Setup, beyond: str | None) -> Run:
    try:
        records = tuple(process_record.read_all(folder))
    except ValueError as error:
        raise NotFollowed(f"what was recorded of the program is damaged ({error}); start it again") from None
    ranks: list[RankPeaks] = []
    needed: list[int | None] = []
    ran_out = workspace = 0
    for number, record in enumerate(records):
        for gpu, counted in record.counted.items():
            was_cut = record.ended == process_record.STEPS and record.steps == 0
            most_calls = setup.calls if was_cut else None
            recording = allocations.record(
                journal.read(record.journal, setup.gpu.context_bytes), gpu, record.texts, record.places, most_calls
            )
            ran_out += recording.out_of_memory
            workspace = max(workspace, recording.largest_passing(WORKSPACES))
            rank = record.rank if record.rank >= 0 else number
            # What was counted up to the program's end says nothing of a part of it.
            counted_here = counted if most_calls is None else None
            found = breakdown.peaks(
                recording, record.places, rank=rank, gpu=gpu, counted=counted_here, is_half=record.is_half
            )
            if found is None:
                continue
            ranks.append(found)
            if beyond is not None:
                context = found.peak.components.get(CONTEXT, 0)
                entries = itertools.islice(journal.read(record.journal, 0), recording.end)
                needed.append(needs.smallest_bytes(entries, gpu, beyond, context))
    return Run(
        exit_status=status,
        records=records,
        ranks=tuple(ranks),
        steps=max((record.steps for record in records), default=0),
        ran_out=ran_out,
        routines_workspace_bytes=workspace,
        needs_bytes=None if not needed or None in needed else max(size for size in needed if size is not None),
    )
