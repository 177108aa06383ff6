"""A program with phases as histories: what comes before its last phase, and the last phase after any part of that."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

from frugal_alloc._planning.replay.history import ALLOCATE, EVENT, History

from ..generators import DEFAULT_SEED, phases


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    parameters: phases.Parameters
    # All phases but the last.
    body: History


@dataclasses.dataclass(frozen=True)
class Ending:
    """A program's last phase after the first events of its body: more of it than the GPU can hold, so no play ends."""

    history: History
    # Where the last phase begins.
    begins_at: int
    # Not in tensors there.
    free_bytes: int


Draw = Callable[[int], phases.Parameters]
#: What a seed draws, by the name of what its sizes are.
DRAWN: dict[str, Draw] = {"any": phases.random_parameters, "borders": phases.border_parameters}


def program_of(which: int | str, draw: Draw = phases.random_parameters) -> Program:
    """That of a seed, which nobody has chosen, or one of phases.FIXED by its name."""
    if isinstance(which, str):
        return of_parameters(which, phases.FIXED[which])
    return of_parameters(f"{which}", draw(which), which)


def of_parameters(name: str, parameters: phases.Parameters, seed: int = DEFAULT_SEED) -> Program:
    return Program(name, parameters, phases.begin(random.Random(seed), parameters).history(name))


def ending(program: Program, cut: int | None = None) -> Ending:
    """The last phase after the body, or after its first `cut` events."""
    parameters, body = program.parameters, program.body
    events = body.events if cut is None else body.events[: cut * EVENT.size]
    sizes: dict[int, int] = {}
    allocated = 0
    for operation, allocation, size, *_ in EVENT.iter_unpack(events):
        if operation == ALLOCATE:
            allocated += 1
            sizes[allocation] = size
        else:
            del sizes[allocation]
    live = sum(sizes.values())
    more = range(allocated, allocated + parameters.memory // parameters.last_size + 1)
    last = (EVENT.pack(ALLOCATE, one, parameters.last_size, parameters.last_stream, 0, 0) for one in more)
    begins_at = len(events) // EVENT.size
    history = dataclasses.replace(
        body,
        events=events + b"".join(last),
        allocation_count=more.stop,
        stream_count=max(body.stream_count, parameters.streams),
        warm_up_end=None,
    )
    return Ending(history, begins_at, parameters.memory - live)
