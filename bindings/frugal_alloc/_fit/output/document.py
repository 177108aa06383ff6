"""Verdicts as JSON; the fields are those of verdict.py, sizes in bytes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from ..verdict import Verdict

#: Goes up when a field changes its meaning or goes away.
VERSION = 1


def to_json(verdicts: Sequence[Verdict]) -> str:
    """An object with the version and the verdict of each allocator."""
    return json.dumps({"version": VERSION, "verdicts": [_fields(verdict) for verdict in verdicts]}, indent=1)


def _fields(verdict: Verdict) -> dict[str, Any]:
    fields = dataclasses.asdict(verdict)
    worst = verdict.worst
    return fields | {"peak_bytes": None if worst is None else worst.most_used_bytes}
