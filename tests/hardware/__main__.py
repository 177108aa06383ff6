"""``python -m hardware PART``: what ``run`` in a packed folder starts."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from frugal_alloc._command.doctor import machine
from frugal_alloc._command.doctor.results import Results
from frugal_alloc._command.doctor.runner import Interrupted, Runner, interruptible
from frugal_alloc._common.arguments import Parser, refuse
from frugal_alloc._simulation import simulated_gpu

from . import conditions, kit, table

PASSED, FAILED, COULD_NOT_RUN = 0, 1, 2
_PROGRAM = "gpu_check"


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < 24 * 60:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number of minutes above 0")
    return minutes


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    minutes = ", ".join(f"{part} {seconds // 60}" for part, seconds in kit.PARTS.items())
    parser = Parser(
        _PROGRAM,
        description="Measures what this machine's GPU and driver do, and whether frugal_alloc is safe on them. Uses "
        "the first visible GPU (CUDA_VISIBLE_DEVICES); without one the simulated GPU, which shows that the kit works.",
        epilog="Exit status: 0 all passed, 1 something failed, 2 it could not run, or not all of it could be asked. "
        "See docs/gpu_check.md.",
    )
    add = parser.add_argument
    add("what", choices=(*kit.PARTS, "all"), help=f"which part (minutes at most: {minutes})")
    add("--minutes", type=_minutes, metavar="N", help="take no longer than this: rounds and sizes shrink")
    add("--add", metavar="OUT1", type=Path, help="throughput adds to what it measured in a run into this folder")
    add("--out", metavar="OUT", help="folder for results, new or empty (default gpu_check-DATE-TIME)")
    simulate = "use a simulated GPU of this memory although there may be a real one"
    add("--simulate", type=simulated_gpu.parse_size, metavar="SIZE", help=simulate)
    add(
        "--alone",
        action="store_true",
        help="nobody else uses this GPU: take all of its memory for the steps that need a full one (without it they do "
        "so only where nobody's memory is found)",
    )
    options = parser.parse_args(arguments)
    if options.what in kit.STARVING and not options.alone:
        parser.error(f"{options.what} starves every process of this machine that maps memory: say --alone if none does")
    if options.add and kit.THROUGHPUT not in kit.parts(options.what):
        parser.error(f"--add is for {kit.THROUGHPUT}, and {options.what} has nothing to add to")
    return options


def _take_earlier(folder: Path, out: Path, where: dict[str, Any]) -> None:
    """Lays what a run has measured of throughput where the step finds it.

    Raises:
        CannotRun: there is nothing, or it is of something else.
    """
    measured = folder / "steps" / kit.THROUGHPUT / kit.MEASURED
    try:
        found = json.loads((folder / "results.json").read_text())["where"]
        cells = measured.read_bytes()
    except (OSError, ValueError, KeyError):
        raise machine.CannotRun(f"{folder} has nothing that {kit.THROUGHPUT} measured; run without --add") from None
    for name, earlier, here in (
        ("GPU", found["gpu"], where["gpu"]),
        *((name, found["software"][name], where["software"][name]) for name in ("torch", "commit")),
    ):
        if earlier != here:
            raise machine.CannotRun(f"{folder} is of {name} {earlier}, and this is {here}; run without --add")
    (out / kit.EARLIER).write_bytes(cells)


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        with interruptible():
            return _run(options)
    except machine.CannotRun as error:
        return refuse(_PROGRAM, error)
    except OSError as error:
        return refuse(_PROGRAM, f"{error.filename or 'the output'}: {error.strerror or error}")
    except Interrupted as ended:
        refuse(_PROGRAM, "interrupted before anything was measured")
        return 128 + ended.args[0]


def _tell(line: str) -> None:
    try:
        print(line, flush=True)
    except BrokenPipeError:
        # Whoever read has seen enough; the results are in files.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(options: argparse.Namespace) -> int:
    out = machine.prepare(Path(options.out or time.strftime("gpu_check-%Y%m%d-%H%M%S")))
    environment = machine.environment(out)
    environment["PYTHONPATH"] += f"{os.pathsep}{kit.ROOT / 'tests'}{os.pathsep}{kit.ROOT}"
    environment, where = machine.find(environment, options.simulate)
    where["software"]["commit"] = kit.commit()
    where |= machine.json_of(conditions.__name__, environment)
    where["is_ours_alone"] = options.alone or conditions.is_nobody_elses(where["others"])
    if options.add:
        _take_earlier(options.add, out, where)
    results = Results(where, {"what": options.what, "minutes": options.minutes})
    _tell(f"on {where['gpu']}{' (simulated)' if where['simulated'] else ''}; results go to {out}")
    results.write(out / "results.json")
    status = _carry_out(options, out, environment, results)
    results.write(out / "results.json")
    summary = table.text(results, out / "steps" / kit.THROUGHPUT / kit.ROWS)
    (out / "table.txt").write_text(summary)
    _tell(f"\n{summary}{out / 'results.json'} has it all")
    return status


def _carry_out(options: argparse.Namespace, out: Path, environment: dict[str, str], results: Results) -> int:
    """The status to end with."""
    parts = kit.parts(options.what)
    full = sum(kit.PARTS[part] for part in parts)
    share = min(1.0, options.minutes * 60 / full) if options.minutes else 1.0
    runner = Runner(out, environment, results, _tell, share)
    try:
        for part in parts:
            runner.run_part(kit.steps(part), kit.PARTS[part] * share)
    except Interrupted as ended:
        results.ended_by = "interrupted"
        return 128 + ended.args[0]
    return FAILED if results.any_failed else PASSED if results.all_passed else COULD_NOT_RUN


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.exit(status)
