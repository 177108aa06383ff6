"""Where answers were made up, for whoever wants to say what a run's figures rest on."""

from __future__ import annotations

import os
import sys

_OURS = os.path.dirname(os.path.abspath(__file__))

# (operator, file, line of the first caller outside of Python and its installed packages) -> how often.
_made_up: dict[tuple[str, str, int], int] = {}

_SIZES = {"nonzero", "_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive"}
_NAMES = {"_unique": "unique", "_unique2": "unique"}


def note(operator: str) -> None:
    """The operator's answer, on values that nobody has computed, is made up.

    One function, since torch.compile is to leave all of it alone.
    """
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(("<", _OURS)) and "-packages/" not in file and "/lib/python" not in file:
            break
        frame = frame.f_back
    key = (operator, "", 0) if frame is None else (operator, frame.f_code.co_filename, frame.f_lineno)
    _made_up[key] = _made_up.get(key, 0) + 1


def sentences() -> list[str]:
    """One for each operator and line."""
    result = []
    located = {operator for operator, file, _ in _made_up if file}
    for (operator, file, line), times in sorted(_made_up.items()):
        if not file and operator in located:
            continue  # a backward pass, on a thread without Python, repeats what a line has asked
        where = f"{file}:{line}: " if file else ""
        name = _NAMES.get(operator, operator)
        what = "how many elements it selects is a guess" if operator in _SIZES else "its answer is a guess"
        often = "once" if times == 1 else f"{times:,} times"
        result.append(f"{where}{name} depends on values that nobody has computed ({often}): {what}")
    return result
