"""The results of a run: one document, written anew after each step."""

from __future__ import annotations

import dataclasses
import datetime
import json
import signal
from pathlib import Path
from typing import Any

from .step import FAILED, FILE, NOT_SHOWN, PASSED, SKIPPED, UNKNOWN, Step, write_json

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
        return self.outcome == UNKNOWN

    @property
    def unknown_since(self) -> list[str]:
        """Why checks are unknown; one reason may be that of many."""
        return list(dict.fromkeys(check["said"] for check in self.checks if check["outcome"] == UNKNOWN))

    @property
    def is_bad(self) -> bool:
        return self.outcome == FAILED or (self.outcome == NOT_REACHED and not self.step.takes_the_rest)

    def checks_that(self, outcome: str) -> list[str]:
        """Those with this outcome, each with what was said."""
        return [f"{check['name']}: {check['said']}" for check in self.checks if check["outcome"] == outcome]

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
            outcomes.add(NOT_SHOWN if simulated else PASSED)
        for outcome in (FAILED, UNKNOWN, PASSED, NOT_SHOWN, SKIPPED):
            if outcome in outcomes:
                self.outcome, self.said = outcome, ""
                return
        self.said, self.broke_off = "it ended without a word", True

    def as_json(self) -> dict[str, Any]:
        of_step = {name: getattr(self.step, name) for name in ("name", "probe", "part", "question")}
        own = {name: getattr(self, name) for name in ("outcome", "said", "seconds", "limit_seconds")}
        lists = {"checks": self.checks, "figures": self.figures, "details": self.details}
        return of_step | own | {name: round(own[name], 1) for name in ("seconds", "limit_seconds")} | lists


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
    def bad(self) -> list[str]:
        """The names of the steps that failed."""
        return [result.step.name for result in self.steps if result.is_bad]

    @property
    def unknown(self) -> list[str]:
        return [result.step.name for result in self.steps if result.is_unknown]

    @property
    def any_failed(self) -> bool:
        return bool(self.ended_by or self.bad)

    @property
    def all_passed(self) -> bool:
        return not (self.any_failed or self.unknown)

    def write(self, path: Path) -> None:
        document = {
            "schema": SCHEMA,
            "where": self.where,
            "asked": self.asked,
            "began": self._began,
            "written": _now(),
            "ended_by": self.ended_by,
            "all_passed": self.all_passed,
            "steps": [result.as_json() for result in self.steps],
        }
        write_json(path, document)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
