"""Verdicts that are made up, for tests of what is said of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from frugal_alloc._planning.fit.verdict import (
    ACTIVATIONS,
    BACKWARD,
    CONTEXT,
    ELSEWHERE,
    EVALUATION,
    FORWARD,
    GRADIENTS,
    INPUTS,
    OPTIMIZER,
    OPTIMIZER_STATE,
    PARAMETERS,
    TEMPORARIES,
    UNNAMED,
    WASTE,
    WORKSPACES,
    Change,
    CodeLine,
    Gpu,
    Growth,
    HeldByLine,
    Inputs,
    Moment,
    RankPeaks,
    Sample,
    Tried,
    Verdict,
)

MIB, GIB = 1 << 20, 1 << 30
LOOP, BLOCK = CodeLine("train.py", 41, "train"), CodeLine("models/unet.py", 57, "forward")
_KEPT = {PARAMETERS: 2 * GIB, CONTEXT: 512 * MIB, WORKSPACES: 64 * MIB, INPUTS: 96 * MIB, WASTE: 130 * MIB}
_OF_PHASES: dict[str, dict[str, int]] = {
    FORWARD: {OPTIMIZER_STATE: 4 * GIB, ACTIVATIONS: 7 * GIB, TEMPORARIES: 210 * MIB},
    BACKWARD: {OPTIMIZER_STATE: 4 * GIB, ACTIVATIONS: 6 * GIB, GRADIENTS: 3 * GIB // 2, TEMPORARIES: 1100 * MIB},
    OPTIMIZER: {OPTIMIZER_STATE: 4 * GIB, GRADIENTS: 2 * GIB, TEMPORARIES: GIB, UNNAMED: 3 * MIB},
    EVALUATION: {OPTIMIZER_STATE: 4 * GIB, ACTIVATIONS: 40 * MIB, TEMPORARIES: 700 * MIB},
    ELSEWHERE: {OPTIMIZER_STATE: 4 * GIB},
}
STEPS = 3


def moment(phase: str, step: int = 3, scale: float = 1.0) -> Moment:
    parts = {name: int(size * scale) for name, size in (_KEPT | _OF_PHASES[phase]).items()}
    return Moment(phase, step, LOOP if phase == BACKWARD else BLOCK, sum(parts.values()), parts)


def series(scale: float) -> tuple[Sample, ...]:
    """Memory that rises in each forward pass and falls in backward."""
    samples = []
    for step in range(1, STEPS + 1):
        for phase in (FORWARD, BACKWARD, OPTIMIZER):
            for part in range(1, 9):
                whole = moment(phase, step, scale)
                rise = part / 8 if phase == FORWARD else 1 - 0.8 * part / 8 if phase == BACKWARD else 0.0
                parts = dict(whole.components)
                if ACTIVATIONS in parts:
                    parts[ACTIVATIONS] = int(parts[ACTIVATIONS] * rise)
                if step == 1 and phase != OPTIMIZER:
                    parts.pop(OPTIMIZER_STATE)
                samples.append(Sample(phase, step, sum(parts.values()), parts))
    return tuple(samples)


def rank(number: int = 0, scale: float = 1.0) -> RankPeaks:
    phases = tuple(moment(phase, scale=scale) for phase in _OF_PHASES)
    peak = max(phases, key=lambda one: one.used_bytes)
    held = {name: size for name, size in peak.components.items() if name not in (WASTE, CONTEXT)}
    half = held[ACTIVATIONS] // 2
    lines = [HeldByLine(BLOCK, ACTIVATIONS, half, 36), HeldByLine(LOOP, ACTIVATIONS, held.pop(ACTIVATIONS) - half, 2)]
    lines += [HeldByLine(None if name == WORKSPACES else LOOP, name, size, 1) for name, size in held.items()]
    lines.sort(key=lambda line: -line.bytes)
    used = peak.used_bytes - peak.components[CONTEXT]
    return RankPeaks(number, number, peak, phases, tuple(lines), series(scale), used - peak.components[WASTE], used)


def fitting(**changed: Any) -> Verdict:
    made = Verdict(
        command=("python", "train.py", "--batch-size", "32"),
        gpu=Gpu("NVIDIA GeForce RTX 4090", 24 * GIB, 512 * MIB, "https://example.org/log", "estimated: 4 MiB for each"),
        gpus=1,
        allocator="native",
        fits=True,
        ended="steps",
        exit_status=0,
        steps=STEPS,
        calls=0,
        needs_bytes=None,
        ranks=(rank(),),
        changes=(Change("half the batch, with gradients accumulated over twice as many", 3 * GIB, is_estimate=True),),
        guesses=(),
        not_modelled=(),
        seconds=8.25,
    )
    return dataclasses.replace(made, **changed)


def refused(**changed: Any) -> Verdict:
    beyond = rank(scale=2.3)
    defaults: dict[str, Any] = {
        "fits": False,
        "ended": "out of memory",
        "exit_status": 1,
        "steps": 0,
        "needs_bytes": 31 * GIB,
        "ranks": (beyond,),
        "changes": (
            Change("checkpoint the layers whose results are kept for backward", 9 * GIB, is_estimate=True),
            Change("step each parameter as its gradient is there", GIB),
            Change("fewer at a time: with 32 at once each takes 430.00 MiB, and 24 would fit", 0),
        ),
        "guesses": ("the number of boxes of models/head.py:12 was made up: 100 of 1,000",),
        "not_modelled": ("cusolverDnSgesvd was called and is not simulated: what it takes is not counted",),
        "error": "CUDA out of memory. Tried to allocate 2.00 GiB.",
    }
    return fitting(**(defaults | changed))


def growing() -> Verdict:
    grown = dataclasses.replace(rank(), growth=Growth(120 * MIB, 120 * MIB, LOOP))
    return fitting(ranks=(grown,), steps=8, not_seen=("what comes later: --steps 0 runs it to its end",))


def differing() -> Verdict:
    return fitting(largest_so_far=Inputs(MIB, 2 * MIB, 3))


def called() -> Verdict:
    """Of a model that is not trained."""
    return fitting(steps=0, calls=7, ended="itself")


def failed() -> Verdict:
    return fitting(fits=None, ended="failed", exit_status=3, ranks=(), changes=())


def ranks() -> Verdict:
    """Four ranks, of which one needs more than the others."""
    return fitting(gpus=4, ranks=tuple(rank(number, 1.1 if number == 2 else 1.0) for number in range(4)))


_KNOWN = (Tried("8", True, 9 * GIB, "steps"), Tried("256", False, 24 * GIB, "out of memory", 1))


def searched(**changed: Any) -> Verdict:
    tried = (*_KNOWN, Tried("48", True, 23 * GIB, "steps"))
    return fitting(searched="--batch-size", tried=tried, found="48", **changed)


def searched_in_vain(
    ended: str, status: int, known: tuple[Tried, ...] = _KNOWN, searched: str = "--batch-size"
) -> Verdict:
    """The program failed, say, before there was an answer."""
    tried = (*known, Tried("64", None, 0, ended, status))
    return fitting(
        fits=None, ended=ended, exit_status=status, ranks=(), changes=(), searched=searched, tried=tried, found=""
    )


def allocators() -> list[Verdict]:
    return [
        fitting(),
        fitting(allocator="expandable", ranks=(rank(scale=1.05),)),
        refused(allocator="frugal", needs_bytes=25 * GIB),
    ]


ALL: dict[str, list[Verdict]] = {
    "fitting": [fitting()],
    "refused": [refused()],
    "growing": [growing()],
    "differing": [differing()],
    "called": [called()],
    "failed": [failed()],
    "ranks": [ranks()],
    "searched": [searched()],
    "searched in vain": [searched_in_vain("failed", 3)],
    "allocators": allocators(),
}
