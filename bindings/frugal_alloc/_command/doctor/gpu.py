"""``frugal-alloc doctor --gpu``: two minutes that say whether frugal_alloc is safe on this machine's GPU, and what its
driver's calls cost."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..._common import arguments, whole_files
from ..._common.messages import Refused, format_bytes, on_one_line
from . import costs, machine
from .driver_costs import DOES_NOT_WAIT
from .results import NOT_REACHED, Results, StepResult
from .runner import Interrupted, Runner, interruptible
from .step import DOCTORS, DRIVER_COSTS, FAILED, SKIPPED

SAFE, NOT_SAFE, COULD_NOT_RUN = 0, 1, 2
SCHEMA = 1
#: What a step means to somebody who trains models, if it is well and if not.
_MEANING = {
    "driver_costs": (
        "costs and waits",
        "calls that remap memory succeed, and do not wait for running work",
        "calls that remap memory fail",
    ),
    "aliasing": (
        "aliasing, order",
        "memory that is seen at two addresses is one memory, in the order of the work; it can be unmapped beside work",
        "memory that is seen at two addresses is not one memory, or does not keep to the order of the work",
    ),
    "lifetimes": (
        "careless streams",
        "programs that are careless with streams fare as with PyTorch's own allocator",
        "programs that are careless with streams, and get away with it with PyTorch's own allocator, do not with ours",
    ),
}


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
    try:
        with tempfile.TemporaryDirectory(prefix="frugal-doctor-") as folder, interruptible():
            results = _measure(Path(folder) / "out", is_watched=not as_json and sys.stderr.isatty())
    except Interrupted as ended:
        raise arguments.Interrupted("interrupted", 128 + int(ended.args[0])) from None
    findings = [_finding(result, results.where["simulated"]) for result in results.steps]
    driver_costs = _driver_costs(results)
    if as_json:
        print(json.dumps(_as_json(results, findings, driver_costs), indent=1))
    else:
        _print(results, findings, driver_costs)
    if keep is not None:
        _keep(Path(keep), results, driver_costs)
    return _verdict(results, findings)[1]


def _measure(out: Path, is_watched: bool) -> Results:
    out = machine.prepare(out)
    environment, where = machine.find(machine.environment(out), simulate=None)
    # Whoever asks the doctor has other work on this GPU, or somebody else has.
    where["is_ours_alone"] = False
    seconds = sum(step.seconds for step in DOCTORS)
    results = Results(where, {"what": "doctor", "minutes": seconds / 60})
    tell = (lambda line: print(line, file=sys.stderr, flush=True)) if is_watched else (lambda line: None)
    Runner(out, environment, results, tell).run_part(DOCTORS, seconds)
    return results


# --- What it means.


def _finding(result: StepResult, simulated: bool) -> Finding:
    subject, good, bad = _MEANING[result.step.name]
    failed, skipped = result.checks_that(FAILED), "; ".join(result.checks_that(SKIPPED))
    if result.outcome == NOT_REACHED or (result.broke_off and not failed):
        return Finding(subject, None, f"not found out: {result.said}", unknown=True)
    if result.is_bad:
        if failed and not result.said and all(DOES_NOT_WAIT in name for name in failed):
            return Finding(subject, False, f"calls that remap memory wait for running work: {'; '.join(failed)}", True)
        return Finding(subject, False, f"{bad}: {'; '.join(failed) or result.said}")
    if result.is_unknown:
        return Finding(subject, None, f"not found out: {'; '.join(result.unknown_since) or result.said}", unknown=True)
    if simulated:
        return Finding(subject, None, "not shown here: the simulated GPU has no values, times and faults of its own")
    if result.outcome == SKIPPED:
        if skipped:
            return Finding(subject, None, f"not found out: {skipped}", unknown=True)
        return Finding(subject, True, result.said)
    return Finding(subject, True, f"{good}{'; left out: ' if skipped else ''}{skipped}")


def _verdict(results: Results, findings: list[Finding]) -> tuple[str, int]:
    """In words, and as an exit status."""
    bad = [finding.subject for finding in findings if finding.good is False and not finding.slow]
    unknown = [finding.subject for finding in findings if finding.unknown]
    if bad:
        return f"not safe here: {', '.join(bad)}", NOT_SAFE
    if unknown:
        return f"unknown, since not all could be asked: {', '.join(unknown)}", COULD_NOT_RUN
    if any(finding.slow for finding in findings):
        return "safe here, but slow: calls that remap memory wait for running work", SAFE
    if results.where["simulated"]:
        return "nothing was measured: this is the simulated GPU", SAFE
    return "safe here", SAFE


def _driver_costs(results: Results) -> dict[str, float]:
    """In microseconds; measured, or on the simulated GPU its model's."""
    for result in results.steps:
        for detail in result.details:
            if detail["name"] == DRIVER_COSTS:
                return detail["microseconds"]
    return {}


def _where(results: Results) -> str:
    where, software = results.where, results.where["software"]
    driver = f"driver {where['driver']}" if where["driver"] else "driver"
    simulated = " (simulated)" if where["simulated"] else ""
    return (
        f"{where['gpu']}{simulated}, {format_bytes(where['memory_bytes'])}, {driver} for CUDA "
        f"{where['driver_for_cuda']}, torch {software['torch']}"
    )


# --- How it is said.


def _print(results: Results, findings: list[Finding], driver_costs: dict[str, float]) -> None:
    print(f"{'':8}{'GPU':18}{_where(results)}")
    words = {True: "ok", False: "bad", None: "-"}
    for finding in findings:
        word = "slow" if finding.slow else "unknown" if finding.unknown else words[finding.good]
        print(f"{word:8}{finding.subject:18}{on_one_line(finding.said)}")
    if driver_costs:
        whose = "of the simulated GPU's model, not measured" if results.where["simulated"] else "measured here"
        print(f"{'':8}{'driver costs':18}microseconds, {whose}")
        for name, cost in driver_costs.items():
            print(f"{'':26}{name:18}{cost:10.2f}")
    print(f"{'':8}{'verdict':18}{_verdict(results, findings)[0]}")


def _as_json(results: Results, findings: list[Finding], driver_costs: dict[str, float]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "where": results.where,
        "verdict": _verdict(results, findings)[0],
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "driver_costs": {"measured": not results.where["simulated"], "microseconds": driver_costs},
        "steps": [result.as_json() for result in results.steps],
    }


# --- What is kept.


def _check_writable(path: Path) -> None:
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Refused(f"--keep: {path} cannot be written; name a file in a folder that can")


def _keep(path: Path, results: Results, driver_costs: dict[str, float]) -> None:
    if results.where["simulated"]:
        raise Refused(f"--keep: nothing was measured on the simulated GPU, so {path} was not written")
    if not driver_costs:
        raise Refused(f"--keep: the driver's costs could not be measured, so {path} was not written")
    heading = f"Measured by frugal-alloc doctor --gpu, in microseconds.\n{_where(results)}"
    try:
        # A link that the user names is meant.
        whole_files.write(os.path.realpath(path), costs.to_text(driver_costs, heading).encode())
    except OSError as error:
        raise Refused(f"--keep: {path} cannot be written: {error.strerror}") from None
