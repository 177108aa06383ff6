"""What the program says will grow: ``frugal_alloc.expect_growth("cache")``."""

from __future__ import annotations

from .._program.code_lines import CodeLine
from .phases import Phase
from .suppressions import Suppression, matches

# Declared before enable() holds, too, so these are the process's and not a tracker's.
_expected: dict[str, None] = {}


class Expectation(Phase):
    """Declared as it is made; as a context manager or decorator also the phase of what it expects to grow."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        _expected[name] = None


def is_expected(code_line: CodeLine) -> bool:
    """Whether the program has declared that memory of this line grows."""
    return any(matches(pattern, code_line) for pattern in tuple(_expected))


def is_silenced(kind: str, code_line: CodeLine | None, suppressions: list[Suppression]) -> bool:
    """Whether a verdict is not to be told: expected by the program, or suppressed by the user's file."""
    if code_line is not None and is_expected(code_line):
        return True
    return any(suppression.covers(kind, code_line) for suppression in suppressions)
