"""Says whether a program fits: runs it as it would run there, and if memory runs out, once more with enough."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from ..._common.messages import format_bytes
from ..._simulation.simulated_gpu import Output
from . import changes, process_record
from .process_record import ProcessRecord
from .runs import Run, Setup, run
from .verdict import CONTEXT, FAILED, INTERRUPTED, ITSELF, OUT_OF_MEMORY, STEPS, Change, RankPeaks, Verdict

# Of the peak: what is less is not worth a sentence.
_LEAST_PART = 0.01

Advance = Callable[[int], None]


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
    """
    began = time.monotonic()
    first = run(command, setup, output=output, advance=advance)
    ended = _ended(first)
    shown, needed = first, None
    if ended == OUT_OF_MEMORY and finds_need:
        beyond = _followed_to_its_end(command, setup, advance)
        if beyond.ranks and not beyond.ran_out and not beyond.is_interrupted:
            shown = beyond
            needed = beyond.needs_bytes
    worst = max(shown.ranks, key=lambda rank: rank.most_used_bytes, default=None)
    is_half = any(record.is_half for record in shown.records)
    advised = changes.of_rank(worst, setup.allocator, is_half) if worst is not None else ()
    return Verdict(
        command=tuple(command),
        gpu=setup.gpu,
        gpus=setup.gpus,
        allocator=setup.allocator,
        fits=_fits(first, ended),
        ended=ended,
        exit_status=first.exit_status,
        steps=first.steps,
        needs_bytes=needed,
        ranks=shown.ranks,
        changes=_with_advice(first.records, advised),
        guesses=_guesses(first, ended),
        not_modelled=_not_modelled(first, worst, setup),
        error=next((record.error.partition("\n")[0].strip() for record in first.records if record.error), ""),
        seconds=time.monotonic() - began,
    )


def _followed_to_its_end(command: Sequence[str], setup: Setup, advance: Advance) -> Run:
    """Its output has been seen; what it says of itself there is that it fits."""
    done = run(command, setup, beyond=setup.allocator, output=Output.HIDDEN, advance=advance)
    if done.ran_out and not done.is_interrupted and setup.allocator == "frugal":
        # It refuses a single request that is larger than the GPU by itself. What it needs follows from the requests.
        native = dataclasses.replace(setup, allocator="native")
        done = run(command, native, beyond=setup.allocator, output=Output.HIDDEN, advance=advance)
    return done


def _ended(done: Run) -> str:
    if done.is_interrupted:
        return INTERRUPTED
    if any(record.error for record in done.records) or (done.exit_status != 0 and done.ran_out):
        return OUT_OF_MEMORY
    if done.exit_status != 0:
        return FAILED
    if any(record.ended == process_record.STEPS for record in done.records):
        return STEPS
    return ITSELF


def _fits(done: Run, ended: str) -> bool | None:
    if ended == OUT_OF_MEMORY:
        return False
    return True if ended in (STEPS, ITSELF) and done.ranks else None


def _with_advice(records: Sequence[ProcessRecord], advised: tuple[Change, ...]) -> tuple[Change, ...]:
    """What the out-of-memory error itself says to change, and what the peak of the whole run says.

    Of the error's advice that which is about no line counts what the one request lacked. The rest of the run may need
    far more, so it is only said where nothing else is.
    """
    advice = next((record.advice for record in records if record.advice), ())
    of_lines = tuple(Change(text, size) for text, size, is_of_line in advice if is_of_line)
    return (of_lines + advised)[: changes.MOST] or tuple(Change(text, size) for text, size, _ in advice)


def _guesses(done: Run, ended: str) -> tuple[str, ...]:
    sentences = {sentence: None for record in done.records for sentence in record.guesses}
    if done.ran_out and ended != OUT_OF_MEMORY:
        times = "once" if done.ran_out == 1 else f"{done.ran_out} times"
        sentences[f"memory ran out {times}, and the program went on by its own means"] = None
    return tuple(sentences)


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
    of_libraries = worst.peak.components.get(CONTEXT, 0) - setup.gpu.context_bytes
    if of_libraries > 0:
        size = format_bytes(of_libraries)
        sentences.append(f"NCCL's buffers ({size}, in the context): their sizes are a model that nobody has measured")
    return tuple(sentences)
