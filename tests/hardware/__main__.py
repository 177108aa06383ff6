"""``python -m hardware facts|tests|speed|all``: what ``run`` in a packed folder starts."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from frugal_alloc._command.doctor import machine
from frugal_alloc._command.doctor.results import Results
from frugal_alloc._command.doctor.runner import Interrupted, Runner, interruptible
from frugal_alloc._common.arguments import Parser
from frugal_alloc._common.messages import on_one_line
from frugal_alloc._simulation import simulated_gpu

from . import conditions, kit, steps, table

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
    minutes = ", ".join(f"{part} {seconds // 60}" for part, seconds in steps.PARTS.items())
    parser = Parser(
        _PROGRAM,
        description="Measures what this machine's GPU and driver do, and whether frugal_alloc is safe on them. Uses "
        "the first visible GPU (CUDA_VISIBLE_DEVICES); without one the simulated GPU, which shows that the kit works.",
        epilog="Exit status: 0 all passed, 1 something failed, 2 it could not run, or not all of it could be asked. "
        "See docs/gpu_check.md.",
    )
    parser.add_argument("what", choices=(*steps.PARTS, "all"), help=f"which part (minutes at most: {minutes})")
    parser.add_argument(
        "--minutes", type=_minutes, metavar="N", help="take no longer than this: rounds and sizes shrink"
    )
    parser.add_argument("--out", metavar="OUT", help="folder for results, new or empty (default gpu_check-DATE-TIME)")
    parser.add_argument(
        "--simulate",
        type=simulated_gpu.parse_size,
        metavar="SIZE",
        help="use a simulated GPU of this memory although there may be a real one",
    )
    parser.add_argument(
        "--alone",
        action="store_true",
        help="nobody else uses this GPU: take all of its memory for the steps that need a full one (without it they do "
        "so only where nobody's memory is found)",
    )
    options = parser.parse_args(arguments)
    if options.what in steps.BY_NAME_ONLY and not options.alone:
        parser.error(f"{options.what} starves every process of this machine that maps memory: say --alone if none does")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        with interruptible():
            return _run(options)
    except machine.CannotRun as error:
        print(f"{_PROGRAM}: {on_one_line(str(error))}", file=sys.stderr)
        return COULD_NOT_RUN
    except OSError as error:
        print(f"{_PROGRAM}: {error.filename or 'the output'}: {error.strerror or error}", file=sys.stderr)
        return COULD_NOT_RUN
    except Interrupted as ended:
        print(f"{_PROGRAM}: interrupted before anything was measured", file=sys.stderr)
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
    environment["PYTHONPATH"] += os.pathsep + str(kit.ROOT / "tests")
    environment, where = machine.find(environment, options.simulate)
    where["software"]["commit"] = kit.commit()
    where |= machine.json_of(conditions.__name__, environment)
    where["is_ours_alone"] = options.alone or conditions.is_nobody_elses(where["others"])
    return _measure(options, out, environment, where)


def _measure(options: argparse.Namespace, out: Path, environment: dict[str, str], where: dict[str, Any]) -> int:
    results = Results(where, {"what": options.what, "minutes": options.minutes})
    _tell(f"on {where['gpu']}{' (simulated)' if where['simulated'] else ''}; results go to {out}")
    parts = steps.parts(options.what)
    full = sum(steps.PARTS[part] for part in parts)
    share = min(1.0, options.minutes * 60 / full) if options.minutes else 1.0
    runner = Runner(out, environment, results, _tell, share)
    status = FAILED
    try:
        for part in parts:
            runner.run_part(steps.of(part), steps.PARTS[part] * share)
        status = FAILED if results.any_failed else PASSED if results.all_passed else COULD_NOT_RUN
    except Interrupted as ended:
        results.ended_by, status = "interrupted", 128 + ended.args[0]
    results.write(out / "results.json")
    summary = table.text(results)
    (out / "table.txt").write_text(summary)
    _tell(f"\n{summary}{out / 'results.json'} has it all")
    return status


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.exit(status)
