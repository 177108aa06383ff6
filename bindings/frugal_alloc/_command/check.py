"""``frugal-alloc check``: its command line; what a command takes is held against the baseline, or becomes it."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import simulated_gpu
from simulated_gpu import gpu_choice, gpu_models

from .._common.arguments import INTERRUPTED, Interrupted, Parser
from .._common.messages import Refused, format_count, on_one_line
from .._planning.check import baseline, comparison, runs
from .._planning.check.baseline import Baseline, BaselineError, Figures, Setting
from .._planning.check.comparison import Allowance
from .._planning.check.runs import Run
from . import options as shared

DEFAULT = Setting(memory=16 << 30, gpus=1, values="cpu", allocator="native")
REGRESSION, NOTHING_COMPARED = 1, 2


def add(parser: Parser) -> None:
    parser.usage = "%(prog)s --baseline FILE [OPTION ...] -- COMMAND [ARGUMENT ...]"
    parser.description = (
        "Runs tests by pytest, or any command, on a simulated GPU, and compares what each test, or each process, takes "
        "of its memory with a baseline. Exit status 1 if one takes more, 2 if nothing could be compared, else the "
        "command's."
    )
    compared = parser.add_argument_group("baseline")
    compared.add_argument("--baseline", metavar="FILE", required=True, help="the file to compare with")
    compared.add_argument("--update", action="store_true", help="write what was measured to that file instead")
    compared.add_argument(
        "--runs",
        metavar="N",
        type=gpu_choice.number(1, 100),
        default=1,
        help="run the command so often; figures that differ between the runs are not compared (default 1)",
    )
    compared.add_argument(
        "--allow",
        metavar="BYTES|PERCENT",
        type=_allowance,
        default=comparison.NOISE,
        help="how much more is no regression: 1MiB, 2%%; 0: nothing is (default 0.1%%, 512 bytes at least)",
    )
    gpu_choice.add_gpus(gpu_choice.add_gpu(parser, more=" (default 16GiB)"))
    program = parser.add_argument_group("tests, or program")
    shared.add_allocator(program, "native", ", as the environment or the program sets it; a baseline is of one")
    gpu_choice.add_values(program, "cpu")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON; the command's output goes to standard error")
    # What is not given is as the baseline has it.
    parser.set_defaults(gpus=None, values=None, allocator=None)
    parser.add_command()


def _allowance(text: str) -> Allowance:
    if match := re.fullmatch(r"\s*(\d{1,4}(?:\.\d{1,6})?)\s*%\s*", text, re.ASCII):
        return Allowance(share=float(match[1]) / 100)
    if text.strip() == "0":
        return Allowance()
    try:
        return Allowance(bytes=simulated_gpu.parse_size(text))
    except simulated_gpu.SizeError:
        raise argparse.ArgumentTypeError(f"{text!r:.60} is neither bytes, like 1MiB, nor a share, like 2%") from None


def carry_out(options: argparse.Namespace) -> int:
    """The status to end with: 1 after a regression, else the command's.

    Raises:
        Refused: nothing can be compared, or the command cannot be run so.
        Interrupted: before anything was compared or written.
    """
    gpu_choice.check_words(options)
    asked = _asked(options)
    known = _known(options)
    setting = _setting(asked, options, known)
    root = os.path.dirname(os.path.abspath(options.baseline))
    try:
        measured = [runs.run(options.command, setting, root, options.json) for _ in range(options.runs)]
    except ValueError as error:
        raise Refused(f"what was recorded is damaged ({error}); start it again") from None
    except (Interrupted, KeyboardInterrupt) as error:
        undone = f"{_relative(options.baseline)} was not written" if options.update else "nothing was compared"
        status = error.status if isinstance(error, Interrupted) else INTERRUPTED
        raise Interrupted(f"{str(error) or 'interrupted'}: {undone}", status) from None
    run = _steady(measured)
    if not run.records and (run.failures or not run.passed):
        raise Refused(f"nothing was measured: {_why_nothing(run)}")
    with _too_late_to_interrupt():
        if known is None or options.update:
            return _update(options.baseline, known, run, setting)
        return _compare(known, run, options)


@contextlib.contextmanager
def _too_late_to_interrupt() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _known(options: argparse.Namespace) -> Baseline | None:
    path = options.baseline
    if options.update and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise BaselineError(f"there is no folder for {path}; make it first")
    try:
        return baseline.read(path)
    except BaselineError:
        # What cannot be read is made anew; what is something else is not overwritten.
        if not options.update or baseline.is_foreign(path):
            raise
        return None


def _setting(asked: Mapping[str, Any], options: argparse.Namespace, known: Baseline | None) -> Setting:
    """What is asked for, and the rest as the baseline has it."""
    if known is None or options.update:
        return dataclasses.replace(known.setting if known is not None else DEFAULT, **asked)
    for name, value in asked.items():
        was = getattr(known, name)
        if was != value:
            made = f"without --{name}" if was is None else f"with --{name} {was}"
            raise Refused(
                f"{options.baseline} was made {made}, and is no measure for {value}: "
                f"leave --{name} out, or make another baseline with --update"
            )
    return known.setting


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    """What the options say of a Setting. A GPU's name says its memory, too."""
    asked = {name: value for name in ("gpus", "values") if (value := getattr(options, name)) is not None}
    if options.allocator is not None:
        if len(options.allocator) > 1:
            options.error("--allocator: a baseline is of one allocator; name one")
        asked["allocator"] = options.allocator[0]
    if options.gpu is not None or options.memory is not None:
        memory, _ = gpu_choice.choose(argparse.Namespace(**{**vars(options), "gpus": options.gpus or 1}))
        name = {"gpu": gpu_models.find(options.gpu).name} if options.gpu is not None else {}
        asked = {**name, "memory": memory, **asked}
    return asked


def _steady(measured: Sequence[Run]) -> Run:
    """The first run, with only those figures that all have alike."""
    records = dict(measured[0].records)
    for other in measured[1:]:
        for name in records.keys() & other.records.keys():
            records[name] = _alike(records[name], other.records[name])
    return measured[0]._replace(records=records)


def _alike(first: Figures, other: Figures) -> Figures:
    names = ("peak", "released", "gpu", "waste", "leaked", "calls")
    same = dataclasses.replace(first, **{name: None for name in names if getattr(first, name) != getattr(other, name)})
    is_known = same.peak is not None and same.released is not None
    return same if is_known else dataclasses.replace(same, peak=None, released=None)


def _why_nothing(run: Run) -> str:
    if run.failures:
        return run.failures[0]
    if run.not_passed and not run.passed:
        return f"no test passed, and the command ended with status {run.status}"
    if run.status:
        return f"the command ended with status {run.status} before it used the GPU's memory"
    return (
        "the command has not used the GPU's memory in a Python program that ended by itself "
        "(python -I and -E leave out the hook that measures)"
    )


def _update(path: str, known: Baseline | None, run: Run, setting: Setting) -> int:
    old = known.records if known is not None and known.setting == setting else {}
    # A test that did not run this time, as others were chosen or it failed, keeps what it has.
    records = {name: figures for name, figures in old.items() if _stays(name, run)}
    records |= {name: baseline.renewed(old.get(name), figures) for name, figures in run.records.items()}
    if not records:
        raise Refused("nothing has used the GPU's memory and passed, so there is nothing to write down")
    baseline.write(path, Baseline.of(setting, run.torch, records))
    changed = sum(records[name] != old.get(name) for name in records) + len(old.keys() - records.keys())
    count = format_count(len(records), "test or process", "tests and processes")
    status = f"; {_source_of_status(run)}" if run.status else ""
    print(f"frugal-alloc check: {_relative(path)} has {count}, {changed} changed{status}", flush=True)
    for name in sorted(run.not_passed - records.keys()):
        print(f"  {name}: not written down, since it did not pass", flush=True)
    return run.status


def _stays(name: str, run: Run) -> bool:
    """Whether what was not measured this time stays in the baseline."""
    if not run.passed | run.not_passed or name in run.passed:
        return False
    if run.collected is None:
        return True
    place = name.split(": fixture ")[0].split(" > ")[0]
    if place in run.collected:
        return place not in run.passed
    if place == "session":
        return not run.collected <= run.passed | run.not_passed
    file = place.split("::")[0]
    return os.path.exists(file) and file not in {other.split("::")[0] for other in run.collected}


def _compare(known: Baseline, run: Run, options: argparse.Namespace) -> int:
    result = comparison.compare(known, run, options.allow)
    notes = [f"not measured: {on_one_line(failure)}" for failure in run.failures]
    if run.torch and known.torch != run.torch:
        notes.append(f"the baseline was made with torch {known.torch}, and this is {run.torch}: changes may be its")
    status, own = run.status, ""
    if result.regressions or not result.compared:
        status = REGRESSION if result.regressions else NOTHING_COMPARED
    elif run.status:
        own = f"{_source_of_status(run)}, not from memory"
    if options.json:
        print(json.dumps(comparison.to_values(result, status, [*notes, own] if own else notes), indent=1))
    else:
        print(comparison.to_text(result, notes, own), flush=True)
    return status


def _source_of_status(run: Run) -> str:
    """Where the command's exit status comes from, which is not 0."""
    source = f"{format_count(len(run.failed), 'test')} that failed" if run.failed else "the command itself"
    return f"exit status {run.status} comes from {source}"


def _relative(path: str) -> str:
    """The path as it is shortest from here."""
    shorter = os.path.relpath(path)
    return path if shorter.startswith("..") else shorter
