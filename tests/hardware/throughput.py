"""Whether programs of real size are as fast with ours as with PyTorch's allocators, and faster in tight memory.

The four processes of a program are alive at once and carry out a window of steps in turns, while the others are idle:
so what changes with time changes for all of them. Each is forked from this process, which has imported torch.

``python -m hardware.throughput --out OUT`` writes OUT/throughput.json and OUT/rows.txt after each round. Exit status: 1
if a program is slower with ours, or fails with ours alone.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from frugal_alloc._command.doctor.machine import described, is_simulated
from frugal_alloc._command.doctor.probe import end_with_parent
from frugal_alloc._common.messages import Refused

from bench.training import ALLOCATORS, NATIVE, OURS, UNTRACKED, programs, worker

from . import speeds, windows
from .speeds import Cell

AMPLE, TIGHT = "ample", "1.05"
#: The most that it takes unless --minutes says less or more.
FULL_SECONDS = 8 * 60.0
_TIGHT = 1.05
#: Parts of the time.
_WEIGHTS = {AMPLE: 2.0, TIGHT: 1.0}
_MOST_WARMING, _MOST_WARM_UPS = 0.35, 8
#: The first estimate of what a step takes is of so many.
_FIRST_STEPS = 4
_MOST_STEPS = 2000
_PROFILED_STEPS, _LEAST_PROFILED_STEPS = 20, 3
#: Of a program's time: windows are over then, and a profile may take so much; it takes many times what its steps do.
_FOR_WINDOWS, _FOR_PROFILE, _TIMES_A_STEP = 0.75, 0.25, 6
#: A process that has not answered for so long, or twice its program's share, hangs.
_LEAST_PATIENCE = 60.0
_LATE = "not done in its time"
_UNRUN = "the simulated GPU runs no kernels of its own"
_ONE_IS_ENOUGH = "the simulated GPU shows with another program that this works"


class Process:
    def __init__(self, cell: Cell, allocator: str, quick: bool, niceness: int = 0) -> None:
        task = {"program": cell.program, "allocator": allocator, "capacity_bytes": cell.capacity_bytes}
        task |= {"quick": quick, "niceness": niceness, "seed": 0}
        forked = multiprocessing.get_context("fork")
        self._pipe, theirs = forked.Pipe()
        self._process = forked.Process(target=_serve, args=(theirs, task, os.getpid()))
        self._process.start()
        theirs.close()

    def ask(self, *request: Any) -> None:
        with contextlib.suppress(OSError):  # the answer says that it has ended
            self._pipe.send(request)

    def answer(self, seconds: float) -> dict[str, Any]:
        try:
            if self._pipe.poll(max(0.0, seconds)):
                return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            return {"outcome": worker.FAILED, "problem": f"it ended with status {self._process.exitcode}"}
        return {"outcome": _LATE, "problem": ""}

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(pipe: Connection, task: dict[str, Any], parent: int) -> None:
    end_with_parent(parent)
    worker.serve(pipe, task)


class Throughput:
    """
    Attributes:
        failed: what was found bad of ours, a line each.
    """

    def __init__(self, out: Path, seconds: float, earlier: dict[tuple[str, str], Cell], simulated: bool) -> None:
        self._out, self._simulated, self._is_short = out, simulated, seconds < FULL_SECONDS
        self._end = time.monotonic() + seconds
        self._running: dict[str, Process] = {}
        self._patience = 0.0
        self.failed: list[str] = []
        found = programs.PROGRAMS.items()
        self.cells = [
            earlier.get((name, capacity)) or Cell(name, program.title, capacity)
            for capacity in (AMPLE, TIGHT)
            for name, program in found
        ]
        for cell in self.cells:
            cell.why.clear()
            cell.problems.clear()
            program = programs.PROGRAMS[cell.program]
            cell.left_out = lacking(program.modules, program.tools)
            if simulated and program.tools:
                cell.left_out = _UNRUN
            elif simulated and cell.capacity == TIGHT and cell.program != self.cells[0].program:
                cell.left_out = _ONE_IS_ENOUGH

    def seconds_left(self) -> float:
        return self._end - time.monotonic()

    def carry_out(self) -> None:
        for module in {module for program in programs.PROGRAMS.values() for module in program.modules}:
            if importlib.util.find_spec(module):
                importlib.import_module(module)
        with self._compiling() as await_compilers:
            for place, cell in enumerate(self.cells):
                weights = [_WEIGHTS[later.capacity] for later in self.cells[place:] if not later.left_out]
                if not cell.left_out:
                    await_compilers(cell)
                    self._measure(cell, windows.share(self.seconds_left(), weights))
                self._conclude(cell)

    @contextlib.contextmanager
    def _compiling(self) -> Iterator[Callable[[Cell], None]]:
        """A program that is compiled needs a minute for it, so that is begun first, with as little of the machine as
        can be; what compilers leave in their caches is for the processes that are measured. Gives what waits for it."""
        compiled = [cell for cell in self.cells if programs.PROGRAMS[cell.program].tools and not cell.left_out]
        running = [Process(cell, NATIVE, quick=False, niceness=19) for cell in compiled[:1]]
        for process in running:
            process.ask("build")

        def wait(cell: Cell) -> None:
            while cell in compiled and running:
                running[0].answer(self.seconds_left() / 2)
                running.pop().end()

        try:
            yield wait
        finally:
            for process in running:
                process.end()

    # --- Of one program with so much memory.

    def _measure(self, cell: Cell, seconds: float) -> None:
        end = self.seconds_left() - seconds
        left = lambda: self.seconds_left() - end  # noqa: E731
        self._patience = max(_LEAST_PATIENCE, 2 * seconds)
        ample = next(one for one in self.cells if (one.program, one.capacity) == (cell.program, AMPLE))
        if cell.capacity == TIGHT and not (held := ample.values(OURS, "reserved_bytes")):
            cell.left_out = "ours has not completed it with ample memory"
            return
        if cell.capacity == TIGHT:
            cell.capacity_bytes = cell.capacity_bytes or int(_TIGHT * max(held))
        try:
            # On the simulated GPU the first program shows that it works with each.
            for allocator in ALLOCATORS[::2] if self._simulated and cell is not self.cells[0] else ALLOCATORS:
                self._running[allocator] = Process(cell, allocator, self._simulated)
            self._all(cell, "build")
            # In tight memory no steps are larger than those that told how much is needed: they begin alike.
            self._warm_up(cell, ample.steps or _MOST_STEPS, seconds, left)
            for number in range(1 if self._simulated else windows.MOST_ROUNDS):
                if not self._running or (number and left() < (1 - _FOR_WINDOWS) * seconds):
                    break
                cell.rounds.append(self._round(cell, number, number, cell.steps))
                speeds.write(self.cells, self._out, self._simulated)
            self._explain(cell, max(left(), _FOR_PROFILE * seconds))
        finally:
            for process in self._running.values():
                process.end()
            self._running.clear()

    def _warm_up(self, cell: Cell, most_steps: int, seconds: float, left: Callable[[], float]) -> None:
        """Until the windows of each agree, or as long as there is time; and how many steps make a window."""
        if self._simulated:
            cell.steps = 1
            return
        first = self._round(cell, 0, "first", _FIRST_STEPS)
        if not first:
            return
        longest = max(found["ms"] for found in first.values())
        aimed = windows.seconds_of_each((_FOR_WINDOWS - _MOST_WARMING) * seconds, len(first)) * 1e3
        cell.steps = cell.steps or min(most_steps, max(1, round(aimed / longest)))
        seen: dict[str, list[float]] = {}
        for number in range(_MOST_WARM_UPS):
            for allocator, found in self._round(cell, number, "warm", max(1, cell.steps // 2)).items():
                seen.setdefault(allocator, []).append(found["ms"])
            cell.not_warm = [allocator for allocator in self._running if not windows.is_warm(seen[allocator])]
            if not cell.not_warm or left() < (1 - _MOST_WARMING) * seconds:
                break

    def _round(self, cell: Cell, number: int, seed: int | str, steps: int) -> dict[str, dict[str, Any]]:
        """A window of each, one after another."""
        found = {}
        for allocator in windows.order(list(self._running), number) if self._running else ():
            self._running[allocator].ask("window", seed, steps)
            if answer := self._answer(cell, allocator):
                found[allocator] = answer
        return found

    def _all(self, cell: Cell, *request: Any) -> None:
        for process in self._running.values():
            process.ask(*request)
        for allocator in list(self._running):
            self._answer(cell, allocator)

    def _answer(self, cell: Cell, allocator: str) -> dict[str, Any] | None:
        """None: it has failed, which is told, and goes on no longer."""
        found = self._running[allocator].answer(min(self._patience, self.seconds_left()))
        outcome = found.pop("outcome")
        if outcome == worker.COMPLETED:
            return found
        cell.problems[allocator] = outcome if outcome != worker.FAILED else found["problem"]
        self._running.pop(allocator).end()
        return None

    # --- What follows.

    def _explain(self, cell: Cell, seconds: float) -> None:
        """A profile where ours falls short; on the simulated GPU one, which shows that it can be made."""
        verdict = cell.verdict()
        if verdict is None or not {OURS, verdict.faster} <= set(self._running):
            return
        simulated, seconds = self._simulated, min(seconds, self.seconds_left())
        if cell is not self.cells[0] if simulated else verdict.ratio.median >= windows.MARGIN:
            return
        fitting = int(seconds * 1e3 / (_TIMES_A_STEP * max(cell.values(OURS, "ms"))))
        steps = 1 if simulated else min(_PROFILED_STEPS, fitting)
        if not simulated and steps < _LEAST_PROFILED_STEPS:
            cell.why = ["no time was left for a profile"]
            return
        found = {}
        for allocator in (OURS, verdict.faster):
            self._running[allocator].ask("profile", steps)
            found[allocator] = self._running[allocator].answer(seconds)
            if found[allocator]["outcome"] != worker.COMPLETED:
                cell.why = [
                    f"no profile: {allocator}: {found[allocator].get('problem') or found[allocator]['outcome']}"
                ]
                return
        if simulated:
            if not found[OURS]["stacks"]:
                self.failed.append(f"{cell.name}: a profile has nothing in it")
        else:
            (self._out / f"profile-{cell.program}-{cell.capacity}.json").write_text(json.dumps(found, indent=1))
            cell.why = speeds.explain(cell, verdict.faster, found)

    def _conclude(self, cell: Cell) -> None:
        speeds.write(self.cells, self._out, self._simulated)
        others = [allocator for allocator in ALLOCATORS if allocator not in cell.problems]
        for allocator, problem in cell.problems.items():
            if allocator in (OURS, UNTRACKED) and others and not (problem == _LATE and self._is_short):
                self.failed.append(f"{cell.name}: {allocator}: {problem}")
        verdict = cell.verdict()
        if verdict and verdict.said == windows.SLOWER and not self._simulated:
            self.failed.append(f"{cell.name}: {speeds.said(verdict)}")


def lacking(modules: tuple[str, ...], tools: tuple[str, ...]) -> str:
    """Which of the modules is not here, or that none of the tools is; "" where all is well."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    return f"there is no {tools[0]} here" if tools and not any(map(shutil.which, tools)) else ""


def main() -> int:
    parser = argparse.ArgumentParser("throughput", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=FULL_SECONDS / 60)
    parser.add_argument("--add", type=Path, help="add to what a run into this folder has measured")
    parser.add_argument("--commit", default="", help="of what is measured")
    options = parser.parse_args()
    found = described()
    where = speeds.measured_on(found, options.commit)
    try:
        earlier = speeds.earlier_cells(options.add, where) if options.add else {}
    except Refused as error:
        parser.error(str(error))
    before = speeds.windows_of(earlier.values())
    (options.out / "where.json").write_text(json.dumps(where))
    measured = Throughput(options.out, options.minutes * 60, earlier, is_simulated())
    measured.carry_out()
    print((options.out / speeds.ROWS).read_text())
    for line in measured.failed:
        print(f"failed: {line}")
    # Without a window nothing is known.
    return 1 if measured.failed else 0 if speeds.windows_of(measured.cells) > before else 2


if __name__ == "__main__":
    sys.exit(main())
