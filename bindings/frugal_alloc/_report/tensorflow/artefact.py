"""Which of TensorFlow's artefacts are read, and the report that they are turned into."""

from __future__ import annotations

import re
from typing import Any

from .. import schema

PROFILE_IS_NOT_READ = (
    "it is a profile of TensorFlow, and those are not read: open it in TensorBoard, or print the step and "
    "tf.config.experimental.get_memory_info('GPU:0') with each, and read the log"
)
# NAME.xplane.pb begins with a plane and its length, a plane with its number or its name; text has no such characters.
_XPLANE = re.compile(rb"\n[\x80-\xff]{0,9}[\x00-\x7f][\x08\x12]")


class NotAnArtefact(ValueError):
    """The file is neither a report nor what TensorFlow writes; the message says what is missing."""


def is_profile(content: Any) -> bool:
    """Whether it is what TensorFlow's profiler writes: the bytes of a file, or TensorBoard's "memory_profile"."""
    if isinstance(content, bytes):
        return _XPLANE.match(content) is not None
    return isinstance(content, dict) and "memoryProfilePerAllocator" in content


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
