"""The results of a run: one document, written anew after each step."""

from __future__ import annotations

import dataclasses
import datetime
import json
import signal
from pathlib import Path
from typing import Any

from .step_report import FILE, Outcome, write_json
from .steps import Step

SCHEMA = 1
NOT_REACHED = "not reached"


@dataclasses.dataclass
class StepResult:
    step: Step
    outcome: str
    #: Why, in a line; "" where the checks say it.
    said: str = ""
    seconds: float = 0.0
    limit_seconds: float = 0.0
    checks: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    figures: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    details: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    #: Its process ended by an error of its own, at its limit, or killed by somebody: how says nothing of the GPU.
    broke_off: bool = False

    @property
    def is_unknown(self) -> bool:
        return self.outcome == Outcome.UNKNOWN.value

    @property
    def unknown_since(self) -> list[str]:
        """Why checks are unknown; one reason may be that of many."""
        reasons = (check["said"] for check in self.checks if check["outcome"] == Outcome.UNKNOWN.value)
        return list(dict.fromkeys(reasons))

    @property
    def is_bad(self) -> bool:
        if self.outcome == NOT_REACHED:
            return not self.step.takes_the_rest
        return self.outcome == Outcome.FAILED.value

    def read(self, folder: Path) -> None:
        """Takes what the step has written, however it ended."""
        try:
            said = json.loads((folder / FILE).read_text())
        except FileNotFoundError:
            return
        self.checks, self.figures, self.details = said["checks"], said["figures"], said["details"]

    def conclude(self, status: int | None, simulated: bool, last_line: str) -> None:
        """The outcome, from what the step said and from how its process ended.

        Args:
            status: the exit status of the process; None if it was ended at its limit.
            last_line: of what it printed.
        """
        if status == 0:
            self._judge(simulated)
            return
        # A fault is the GPU's, or ours on it.
        self.broke_off = status is None or status > 0 or status == -signal.SIGKILL
        if status is None:
            self.said = f"ended at its limit of {self.limit_seconds:.0f} s"
        elif status < 0:
            self.said = f"ended by {signal.Signals(-status).name}: {last_line}"
        else:
            self.said = last_line or f"ended with status {status}"

    def _judge(self, simulated: bool) -> None:
        outcomes = {check["outcome"] for check in self.checks}
        if self.figures:
            outcomes.add((Outcome.NOT_SHOWN if simulated else Outcome.PASSED).value)
        for outcome in (Outcome.FAILED, Outcome.UNKNOWN, Outcome.PASSED, Outcome.NOT_SHOWN, Outcome.SKIPPED):
            if outcome.value in outcomes:
                self.outcome, self.said = outcome.value, ""
                return
        self.said, self.broke_off = "it ended without a word", True

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self.step, name) for name in ("name", "probe", "part", "question")},
            "outcome": self.outcome,
            "said": self.said,
            "seconds": round(self.seconds, 1),
            "limit_seconds": round(self.limit_seconds, 1),
            "checks": self.checks,
            "figures": self.figures,
            "details": self.details,
        }


@dataclasses.dataclass
class Results:
    where: dict[str, Any]
    asked: dict[str, Any]
    steps: list[StepResult] = dataclasses.field(default_factory=list)
    #: What ended the run before its last step: "interrupted"; "" if nothing did.
    ended_by: str = ""

    def __post_init__(self) -> None:
        self._began = _now()

    @property
    def all_passed(self) -> bool:
        return not self.any_failed and not any(result.is_unknown for result in self.steps)

    @property
    def any_failed(self) -> bool:
        return bool(self.ended_by) or any(result.is_bad for result in self.steps)

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "where": self.where,
            "asked": self.asked,
            "began": self._began,
            "written": _now(),
            "ended_by": self.ended_by,
            "all_passed": self.all_passed,
            "steps": [result.as_json() for result in self.steps],
        }

    def write(self, path: Path) -> None:
        write_json(path, self.as_json())


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
