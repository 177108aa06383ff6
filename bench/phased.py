"""Programs with phases, played to their end: what the last phase gets of ours and of its rivals."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
from collections.abc import Callable
from pathlib import Path

from frugal_alloc._planning.replay import replays
from frugal_alloc._planning.replay.history import ALLOCATE, EVENT, History

from .comparison import rivals
from .comparison.policy import PlayError, Policy
from .generators import DEFAULT_SEED, phases
from .generators.recorder import Recorder

KEPT = rivals.KEPT.with_name("left_over")
RIVALS = ("native", "expandable")
ALLOCATORS = ("ours", *RIVALS)
_FORMAT = 1


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
    parameters, recorder = program.parameters, Recorder()
    for operation, tensor, size, stream, *_ in itertools.islice(EVENT.iter_unpack(program.body.events), cut):
        if operation == ALLOCATE:
            recorder.allocate(size, stream)
        else:
            recorder.free(tensor)
    begins_at, free_bytes = recorder.event_count, parameters.memory - recorder.live_bytes
    count = parameters.memory // parameters.last_size + 1
    recorder.allocate_all([parameters.last_size] * count, parameters.last_stream)
    return Ending(recorder.history(program.name), begins_at, free_bytes)


@dataclasses.dataclass(frozen=True)
class Left:
    """What the last phase of one program got, in bytes, by allocator."""

    name: str
    parameters: dict[str, int | float]
    ours: int
    native: int
    expandable: int
    # What is not in tensors when the last phase begins.
    free: int
    # The event of the program at which an allocator ran out of memory, so that it was cut there; None: at none.
    cut_at: int | None

    @property
    def better(self) -> int:
        """Of the other allocators."""
        return max(self.native, self.expandable)

    @property
    def ratio(self) -> float:
        """Ours over the better of the others; 1 where nobody got anything."""
        return self.ours / self.better if self.better else 1.0


class Plays:
    """Plays programs through ours and its rivals. Any thread may use it."""

    def __init__(self, policy: Policy, changes: dict[str, int], folder: Path) -> None:
        """
        Args:
            changes: options of the policy with other values.
            folder: where figures of the rivals are kept: they change with torch and the program alone.

        Raises:
            MissingPart, SimulationError: as replays.Replayer().
        """
        self.replayer = replays.Replayer()
        self._policy = policy
        self._changes = changes
        self._folder = folder

    def measure(self, program: Program) -> Left:
        """Where an allocator runs out earlier, the last phase begins there, for all of them.

        Raises:
            PlayError, ReplayError: one of them could not play it.
        """
        cut = None
        while True:
            last = ending(program, cut)
            failed = {"ours": self._ours(program, last), **{who: self._rival(program, last, who) for who in RIVALS}}
            if min(failed.values()) >= last.begins_at:
                break
            cut = min(failed.values())
        got = {who: (at - last.begins_at) * program.parameters.last_size for who, at in failed.items()}
        return Left(program.name, dataclasses.asdict(program.parameters), **got, free=last.free_bytes, cut_at=cut)

    def measure_all(self, made: list[Program], advance: Callable[[str], None]) -> list[Left]:
        """In their order; calls `advance` as each is done. Raises as measure() does."""

        def job(program: Program) -> Left:
            found = self.measure(program)
            advance(program.name)
            return found

        return replays.run_all(self.replayer, [functools.partial(job, program) for program in made])

    def _ours(self, program: Program, last: Ending) -> int:
        """The event for which there was no memory."""
        memory = program.parameters.memory
        return _failed_at(self._policy.play(last.history, memory, 0, self._changes, steady=False).failed_at, last)

    def _rival(self, program: Program, last: Ending, allocator: str) -> int:
        memory = program.parameters.memory

        def measure() -> dict[str, int]:
            found = self.replayer.measure(last.history, allocator, memory, find_minimum=False, passes=1)
            return {"failed_at": _failed_at(found.failed_at, last)}

        about = [_FORMAT, allocator, memory]
        return rivals.kept(self._folder, about, last.history, measure, lambda kept: int(kept["failed_at"]))


def _failed_at(event: int | None, last: Ending) -> int:
    if event is None:
        raise PlayError(f"{last.history.name}: all of it was granted, which is more than the GPU has")
    return event
