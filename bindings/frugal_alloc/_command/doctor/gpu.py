"""``frugal-alloc doctor --gpu``: two minutes that say whether frugal_alloc is safe on this machine's GPU, and what its
driver's calls cost."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from ..._common import whole_files
from ..._common.messages import Refused, format_bytes, on_one_line
from . import costs, machine
from .probe import FAILED, NOT_SHOWN, PASSED, SKIPPED, UNKNOWN

SAFE, NOT_SAFE, COULD_NOT_RUN = 0, 1, 2
SCHEMA, _SECONDS_TO_END = 2, 90.0
#: What is said of a process that SIGKILL does not end in that time.
HELD = f"the driver holds its process, {_SECONDS_TO_END:.0f} s after SIGKILL; look at dmesg"


class Probe(NamedTuple):
    """A module with ``run(report)``, and what its answer means to somebody who trains models."""

    name: str
    seconds: int
    subject: str
    good: str
    bad: str
    needs_virtual_memory: bool = True


PROBES = (
    Probe(
        "costs",
        30,
        "costs and waits",
        "calls that remap memory succeed, and do not wait for running work",
        "calls that remap memory fail",
    ),
    Probe(
        "aliasing",
        30,
        "aliasing, order",
        "memory that is seen at two addresses is one memory, in the order of the work; it can be unmapped beside work",
        "memory that is seen at two addresses is not one memory, or does not keep to the order of the work",
    ),
    Probe(
        "lifetimes",
        60,
        "careless streams",
        "programs that are careless with streams fare as with PyTorch's own allocator",
        "programs that are careless with streams, and get away with it with PyTorch's own allocator, do not with ours",
        needs_virtual_memory=False,
    ),
)


@dataclasses.dataclass
class Examined:
    """A probe that was carried out."""

    probe: Probe
    #: The exit status of its process, negative for a signal; None: it was ended at its limit, or never started.
    status: int | None
    #: The last line of what it said on stderr, or why it was not carried out.
    last_line: str
    #: What it said, as probe.Report writes it.
    lines: list[dict[str, Any]]
    seconds: float = 0.0

    def with_outcome(self, outcome: str) -> list[str]:
        return [f"{line['name']}: {line['said']}" for line in self.lines if line.get("outcome") == outcome]

    def driver_costs(self) -> dict[str, float]:
        return next((line["microseconds"] for line in self.lines if "microseconds" in line), {})


@dataclasses.dataclass(frozen=True)
class Finding:
    subject: str
    #: None: not shown here, or unknown.
    good: bool | None
    said: str
    #: What is bad about it is that it takes long.
    slow: bool = False
    #: It could not be asked: software does not suit, or too little memory or time was left.
    unknown: bool = False


def main(as_json: bool, keep: str | None) -> int:
    """Prints what it finds.

    Args:
        keep: a file for the costs that were measured, for the setting driver_costs.

    Raises:
        Refused: there is no GPU that works, or no torch; or `keep` cannot be written, or has nothing to keep.
    """
    if keep is not None:
        _check_writable(Path(keep))
    environment, where = machine.find()
    examined = []
    for probe in PROBES:
        if not as_json and sys.stderr.isatty():
            print(f"{probe.subject} (up to {probe.seconds} s)", file=sys.stderr, flush=True)
        if where["virtual_memory"] or not probe.needs_virtual_memory:
            examined.append(carry_out(probe, environment))
        else:
            none = "this GPU has no virtual memory management, so frugal_alloc maps nothing on it"
            examined.append(Examined(probe, None, none, []))
    findings = [finding(each, where) for each in examined]
    driver_costs = examined[0].driver_costs()
    if as_json:
        print(json.dumps(_as_json(where, examined, findings, driver_costs), indent=1))
    else:
        _print(where, findings, driver_costs)
    if keep is not None:
        keep_costs(Path(keep), where, driver_costs)
    return verdict(where, findings)[1]


def carry_out(probe: Probe, environment: Mapping[str, str]) -> Examined:
    """In a process of its own, which is ended, with all that it started, when its time is over."""
    command = [sys.executable, "-m", "frugal_alloc._command.doctor.probe", probe.name, str(probe.seconds)]
    began, status = time.monotonic(), None
    # No pipes, which a process that does not end would keep open.
    with TemporaryFile("w+", errors="replace") as out, TemporaryFile("w+", errors="replace") as err:
        options: dict[str, Any] = {"cwd": "/", "stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        command.append(str(os.getpid()))
        child = subprocess.Popen(command, env=dict(environment), start_new_session=True, **options)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = child.wait(probe.seconds)
        finally:
            is_over = end_group(child)
        said, errors = (file.seek(0) or file.read().strip().splitlines() for file in (out, err))
    last = (errors or [""])[-1] if is_over else HELD
    lines = [json.loads(line) for line in said if line.startswith("{") and line.endswith("}")]
    return Examined(probe, status, last, lines, time.monotonic() - began)


def end_group(child: subprocess.Popen[Any]) -> bool:
    """Ends a process with all that it started; whether it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_SECONDS_TO_END)
    return child.returncode is not None


# --- What it means.


def finding(found: Examined, where: Mapping[str, Any]) -> Finding:
    probe, failed, skipped = found.probe, found.with_outcome(FAILED), "; ".join(found.with_outcome(SKIPPED))
    unknown = list(dict.fromkeys(line["said"] for line in found.lines if line.get("outcome") == UNKNOWN))
    if probe.needs_virtual_memory and not where["virtual_memory"]:
        return Finding(probe.subject, True, found.last_line)
    if failed and found.status == 0 and all(costs.DOES_NOT_WAIT in name for name in failed):
        said = f"calls that remap memory wait for running work: {'; '.join(failed)}"
        return Finding(probe.subject, False, said, True)
    if failed:
        return Finding(probe.subject, False, f"{probe.bad}: {'; '.join(failed)}")
    # A fault is the GPU's, or ours on it; how else a process ends says nothing of it.
    if found.status is not None and found.status < 0 and found.status != -signal.SIGKILL:
        name = signal.Signals(-found.status).name
        return Finding(probe.subject, False, f"{probe.bad}: ended by {name}: {found.last_line}")
    if found.status is None:
        unknown = [HELD if found.last_line == HELD else f"ended at its limit of {probe.seconds} s"]
    elif found.status != 0:
        unknown = [found.last_line or f"ended with status {found.status}"]
    outcomes = {line.get("outcome") for line in found.lines}
    if not unknown and not outcomes & {PASSED, NOT_SHOWN}:
        unknown = [skipped or "it ended without a word"]
    if unknown:
        return Finding(probe.subject, None, f"not found out: {'; '.join(unknown)}", unknown=True)
    if where["simulated"]:
        said = "not shown here: the simulated GPU has no values, times and faults of its own"
        return Finding(probe.subject, None, said)
    return Finding(probe.subject, True, f"{probe.good}{'; left out: ' if skipped else ''}{skipped}")


def verdict(where: Mapping[str, Any], findings: list[Finding]) -> tuple[str, int]:
    """In words, and as an exit status."""
    bad = [found.subject for found in findings if found.good is False and not found.slow]
    unknown = [found.subject for found in findings if found.unknown]
    if bad:
        return f"not safe here: {', '.join(bad)}", NOT_SAFE
    if unknown:
        return f"unknown, since not all could be asked: {', '.join(unknown)}", COULD_NOT_RUN
    if any(found.slow for found in findings):
        return "safe here, but slow: calls that remap memory wait for running work", SAFE
    if where["simulated"]:
        return "nothing was measured: this is the simulated GPU", SAFE
    return "safe here", SAFE


# --- How it is said.


def _place(where: Mapping[str, Any]) -> str:
    driver = f"driver {where['driver']}" if where["driver"] else "driver"
    simulated = " (simulated)" if where["simulated"] else ""
    return (
        f"{where['gpu']}{simulated}, {format_bytes(where['memory_bytes'])}, {driver} for CUDA "
        f"{where['driver_for_cuda']}, torch {where['software']['torch']}"
    )


def _print(where: Mapping[str, Any], findings: list[Finding], driver_costs: dict[str, float]) -> None:
    print(f"{'':8}{'GPU':18}{_place(where)}")
    words = {True: "ok", False: "bad", None: "-"}
    for found in findings:
        word = "slow" if found.slow else "unknown" if found.unknown else words[found.good]
        print(f"{word:8}{found.subject:18}{on_one_line(found.said)}")
    if driver_costs:
        whose = "of the simulated GPU's model, not measured" if where["simulated"] else "measured here"
        print(f"{'':8}{'driver costs':18}microseconds, {whose}")
        for name, cost in driver_costs.items():
            print(f"{'':26}{name:18}{cost:10.2f}")
    print(f"{'':8}{'verdict':18}{verdict(where, findings)[0]}")


def _as_json(
    where: Mapping[str, Any], examined: list[Examined], findings: list[Finding], driver_costs: dict[str, float]
) -> dict[str, Any]:
    steps = [
        {
            "name": each.probe.name,
            "seconds": round(each.seconds, 1),
            "status": each.status,
            "said": each.last_line,
            "checks": [line for line in each.lines if "outcome" in line],
            "figures": [line for line in each.lines if "unit" in line],
        }
        for each in examined
    ]
    return {
        "schema": SCHEMA,
        "where": where,
        "verdict": verdict(where, findings)[0],
        "findings": [dataclasses.asdict(found) for found in findings],
        "driver_costs": {"measured": not where["simulated"], "microseconds": driver_costs},
        "steps": steps,
    }


# --- What is kept.


def _check_writable(path: Path) -> None:
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Refused(f"--keep: {path} cannot be written; name a file in a folder that can")


def keep_costs(path: Path, where: Mapping[str, Any], driver_costs: dict[str, float]) -> None:
    if where["simulated"]:
        raise Refused(f"--keep: nothing was measured on the simulated GPU, so {path} was not written")
    if not driver_costs:
        raise Refused(f"--keep: the driver's costs could not be measured, so {path} was not written")
    heading = f"Measured by frugal-alloc doctor --gpu, in microseconds.\n{_place(where)}"
    try:
        # A link that the user names is meant.
        whole_files.write(os.path.realpath(path), costs.to_text(driver_costs, heading).encode())
    except OSError as error:
        raise Refused(f"--keep: {path} cannot be written: {error.strerror}") from None
