"""Errors like earlier ones. Each kind is explained at its first, second, fourth, eighth ... error, else only counted.

To explain one takes 50 ms of the thread that failed. A program that searches for a batch that fits, or leaves out what
does not fit, may meet thousands.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

# Of more the oldest is forgotten; one may take some KiB.
_MOST_KINDS = 256
# Sizes in one such part of an octave are alike.
_PARTS_OF_OCTAVE = 4


class Explanation(NamedTuple):
    """What was found out about an error."""

    text: str
    path: str | None  # of the report
    error: dict[str, Any]  # what the document says of it


class Errors:
    """The errors of one kind."""

    def __init__(self) -> None:
        self.met = 0
        self.explained_at = 0
        self.explanation: Explanation | None = None

    def is_due(self) -> bool:
        """Whether the latest is to be explained."""
        return self.met & (self.met - 1) == 0

    def explained(self, explanation: Explanation) -> None:
        self.explained_at, self.explanation = self.met, explanation

    def note(self) -> str:
        """For the latest, which is not due: how many there were, and what the explanation beside it is of."""
        return (
            f"{self.met} errors like this so far: by the same line, with sizes alike. What is said here was "
            f"found out at number {self.explained_at}; number {2 ** self.met.bit_length()} is looked into again."
        )


_kinds: dict[tuple, Errors] = {}


def kind_of(facts: Any, asked_at: Any, report_dir: str) -> tuple:
    """What two errors share that are told once.

    Args:
        facts: `_native.out_of_memory.OutOfMemory`.
        asked_at: Where memory was asked for, anything that can be compared.
        report_dir: The setting: the report of an error that is only counted is the earlier one's.
    """
    of_request = (facts.requested_bytes, facts.missing_bytes)
    held = (facts.allocated_bytes, facts.native_reserved_bytes, facts.outside_bytes)
    return facts.gpu, asked_at, report_dir, facts.verdict, *map(_class, (*of_request, *held))


def count(kind: tuple) -> Errors:
    """Counts one more error of a kind."""
    errors = _kinds.setdefault(kind, Errors())
    errors.met += 1
    if len(_kinds) > _MOST_KINDS:
        _kinds.pop(next(iter(_kinds)), None)
    return errors


def _class(size: int) -> int:
    return round(_PARTS_OF_OCTAVE * math.log2(max(size, 1 << 20)))
