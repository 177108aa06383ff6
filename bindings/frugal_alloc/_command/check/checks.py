"""One check: the command is run, and what it took is held against the baseline or becomes it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..._common.messages import format_count, on_one_line
from . import baseline, comparison, runs, wording
from .baseline import Baseline, BaselineError, Setting
from .comparison import Allowance
from .figures import Figures
from .runs import Run

DEFAULT = Setting(memory=16 << 30, gpus=1, values="cpu", allocator="native")
REGRESSION = 1


class CheckError(Exception):
    """Nothing can be compared; the message is one line that says what to do."""


class Order(NamedTuple):
    """What the user asks for, by the names of options. None in the setting: as the baseline has it."""

    command: Sequence[str]
    baseline: str
    memory: int | None = None
    gpus: int | None = None
    values: str | None = None
    allocator: str | None = None
    update: bool = False
    runs: int = 1
    allow: Allowance = Allowance()
    json: bool = False


def carry_out(order: Order) -> int:
    """The status to end with: 1 after a regression, else the command's.

    Raises:
        BaselineError, CheckError: it cannot be done.
        SimulationError: the command cannot be run so.
        Interrupted, KeyboardInterrupt: before anything was compared or written.
    """
    known = _known(order)
    setting = _setting(order, known)
    root = os.path.dirname(os.path.abspath(order.baseline))
    try:
        run = steady([runs.run(order.command, setting, root, order.json) for _ in range(order.runs)])
    except ValueError as error:
        raise CheckError(f"what was recorded is damaged ({error}); start it again") from None
    if not run.records and (run.failures or not run.passed):
        raise CheckError(_why_nothing(run))
    with _too_late_to_interrupt():
        if order.update:
            _update(order.baseline, known, run, setting)
            return run.status
        assert known is not None
        return _compare(known, run, order)


@contextlib.contextmanager
def _too_late_to_interrupt() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _known(order: Order) -> Baseline | None:
    if not order.update:
        return baseline.read(order.baseline)
    if not os.path.isdir(os.path.dirname(os.path.abspath(order.baseline))):
        raise BaselineError(f"there is no folder for {order.baseline}; make it first")
    try:
        return baseline.read(order.baseline)
    except BaselineError:
        # What cannot be read is made anew; what is something else is not overwritten.
        if baseline.is_foreign(order.baseline):
            raise
        return None


def _setting(order: Order, known: Baseline | None) -> Setting:
    names = [field.name for field in dataclasses.fields(Setting)]
    asked = {name: getattr(order, name) for name in names if getattr(order, name) is not None}
    if known is None or order.update:
        return dataclasses.replace(known.setting if known is not None else DEFAULT, **asked)
    for name, value in asked.items():
        was = getattr(known, name)
        if was != value:
            raise CheckError(
                f"{order.baseline} was made with --{name} {was}, and is no measure for {value}: "
                f"leave --{name} out, or make another baseline with --update"
            )
    return known.setting


def steady(measured: Sequence[Run]) -> Run:
    """The first run, with only those figures that all have alike."""
    first = measured[0]
    records = dict(first.records)
    for other in measured[1:]:
        for name in records.keys() & other.records.keys():
            records[name] = _alike(records[name], other.records[name])
    return first._replace(records=records)


def _alike(first: Figures, other: Figures) -> Figures:
    names = ("peak", "released", "gpu", "waste", "leaked", "calls")
    same = dataclasses.replace(first, **{name: None for name in names if getattr(first, name) != getattr(other, name)})
    is_known = same.peak is not None and same.released is not None
    return same if is_known else dataclasses.replace(same, peak=None, released=None)


def _update(path: str, known: Baseline | None, run: Run, setting: Setting) -> None:
    old = known.records if known is not None and known.setting == setting else {}
    # A test that did not run this time, as others were chosen or it failed, keeps what it has.
    records = {name: figures for name, figures in old.items() if _stays(name, run)}
    records.update({name: baseline.renewed(old.get(name), figures) for name, figures in run.records.items()})
    if not records:
        raise CheckError("nothing has used the GPU's memory and passed, so there is nothing to write down")
    baseline.write(path, Baseline.of(setting, run.torch, records))
    changed = sum(records[name] != old.get(name) for name in records) + len(old.keys() - records.keys())
    count = format_count(len(records), "test or process", "tests and processes")
    status = f"; {wording.source_of_status(run)}" if run.status else ""
    _say(f"frugal-alloc check: {wording.relative(path)} has {count}, {changed} changed{status}")
    for name in sorted(run.not_passed - records.keys()):
        _say(f"  {name}: not written down, since it did not pass")


def _stays(name: str, run: Run) -> bool:
    """Whether what was not measured this time stays in the baseline."""
    if not run.is_of_tests or name in run.passed:
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


def _compare(known: Baseline, run: Run, order: Order) -> int:
    result = comparison.compare(known, run, order.allow)
    notes = [f"not measured: {on_one_line(failure)}" for failure in run.failures]
    if run.torch and known.torch != run.torch:
        notes.append(f"the baseline was made with torch {known.torch}, and this is {run.torch}: changes may be its")
    status = REGRESSION if result.regressions else run.status
    own = f"{wording.source_of_status(run)}, not from memory" if run.status and not result.regressions else ""
    if order.json:
        print(json.dumps(wording.to_values(result, status, [*notes, own] if own else notes), indent=1))
    else:
        _say(wording.to_text(result, notes, own))
    return status


def _say(text: str) -> None:
    print(text, file=sys.stdout, flush=True)


def _why_nothing(run: Run) -> str:
    if run.failures:
        return f"nothing was measured: {run.failures[0]}"
    if run.not_passed and not run.passed:
        return f"nothing was measured: no test passed, and the command ended with status {run.status}"
    if run.status:
        return f"nothing was measured: the command ended with status {run.status} before it used the GPU's memory"
    return (
        "nothing was measured: the command has not used the GPU's memory in a Python program that ended by itself "
        "(python -I and -E leave out the hook that measures)"
    )
