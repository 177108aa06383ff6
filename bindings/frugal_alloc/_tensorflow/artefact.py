"""What both kinds of artefacts have in common: the report that they are turned into."""

from __future__ import annotations

from typing import Any

from .._report import schema


class NotAnArtefact(ValueError):
    """The file is neither a report nor what TensorFlow writes; the message says what is missing."""


def empty_report(name: str, steps: int, notes: list[str]) -> dict[str, Any]:
    """A report of a TensorFlow run, in which steps stand for epochs."""
    return {
        "schema": schema.SCHEMA,
        "version": schema.VERSION,
        "run": {"command": [name]},
        "epochs": {"ended": steps, "found_by": "steps" if steps else "none", "steps": steps, "steps_per_epoch": 1.0},
        "gpus": [],
        "verdicts": [],
        "frames": [],
        "sites": [],
        "timeline": {"phases": [], "points": [], "epoch_ends": []},
        "segments": [],
        "oom": None,
        "notes": ["Read from what TensorFlow wrote; steps count as epochs.", *notes],
    }
