"""Searches for the largest value of an argument, or the smallest GPU, with which a program fits."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ..._common.messages import Refused
from .verdict import INTERRUPTED, INTERRUPTED_STATUS, WASTE, Tried, Verdict

Value = TypeVar("Value")

_NAME = r"-{0,2}[A-Za-z_][\w.-]*"
# One part of so many of a value counts as near it; and is not worth a run.
_NEAR, _EXACT = 50, 100


class SearchError(Refused):
    """What is searched for cannot be; the message is one line that says what to do."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of the program's, and the values that it may have."""

    name: str  # as the program has it: "--batch-size", or "data.batch"
    least: int
    most: int

    @classmethod
    def parse(cls, text: str, command: Sequence[str]) -> Argument:
        """From "batch-size=8..256"; the command says how the program writes it.

        Raises:
            SearchError: it is none.
        """
        match = re.fullmatch(rf"({_NAME})=(\d{{1,9}})\.\.(\d{{1,9}})", text)
        if match is None or not 0 < int(match[2]) <= int(match[3]):
            raise SearchError(_why_no_range(text, command))
        wanted = _plain(match[1])
        names = [word.partition("=")[0] for word in command[1:]]
        name = next((name for name in names if _plain(name) == wanted), None)
        if name is None:
            name = match[1] if match[1].startswith("-") else f"--{match[1]}"
        return cls(name, int(match[2]), int(match[3]))

    def put(self, command: Sequence[str], value: int) -> list[str]:
        """The command with this value of the argument, which is added at the end where it is missing."""
        result = list(command)
        for number, word in enumerate(result):
            if word == self.name and number + 1 < len(result):
                result[number + 1] = str(value)
                return result
            if word.startswith(f"{self.name}="):
                result[number] = f"{self.name}={value}"
                return result
        return [*result, self.name, str(value)]


def _why_no_range(text: str, command: Sequence[str]) -> str:
    """One line that says what is wrong, and has the right form."""
    form = "write it like --find-batch --batch-size=8..256"
    name, _, value = text.partition("=")
    is_named = re.fullmatch(_NAME, name) is not None
    bounds = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", value)
    if not text:
        return f"--find-batch needs an argument of the program with the range to search; {form}"
    if re.fullmatch(r"\d+(\.\.\d+)?", text):
        return f"--find-batch {text!r:.80} names no argument of the program; {form}"
    if is_named and "=" not in text and re.fullmatch(r"\d+\.\.\d+", command[0]):
        return f"the range is to follow behind an equals sign; write --find-batch {name:.60}={command[0]:.40}"
    if not is_named or bounds is None:
        return f"--find-batch {text!r:.80} is no argument with a range; {form}"
    least, most = int(bounds[1]), int(bounds[2] or bounds[1])
    if bounds[2] is None:
        said, least, most = "is a single value", max(least, 1), 32 * max(least, 1)
    elif most < least:
        said, least, most = "runs backwards", max(most, 1), least
    else:
        said, least, most = "begins below 1", 1, max(most, 1)
    return f"the range of {text!r:.80} {said}; write it like --find-batch {name:.60}={least}..{most}"


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def largest(argument: Argument, fit: Callable[[int], Verdict]) -> tuple[Verdict, int | None]:
    """The largest value that fits, to one percent, and its verdict, which names the values that were tried.

    None: not even the least fits, or a run says neither. That one ends the search and is its verdict, since a program
    that fails by itself, or is interrupted, is no evidence that a value is too large. Memory is taken to grow with the
    value, and as a line first: that finds most answers in six or seven runs.
    """
    tried: dict[int, Verdict] = {}

    def searched(value: int, answer: int | None) -> tuple[Verdict, int | None]:
        return _with_runs(tried, value, argument.name, answer, is_last=answer == argument.most), answer

    below, above = argument.least - 1, argument.most + 1
    while (value := _next(tried, below, above)) is not None:
        tried[value] = _run(tried, fit, value)
        if tried[value].fits is None:
            return searched(value, None)
        below, above = (value, above) if tried[value].fits else (below, value)
        if not tried[argument.least].fits:
            return searched(argument.least, None)
    return searched(below, below)


def _next(tried: dict[int, Verdict], below: int, above: int) -> int | None:
    """A value between the two, of which the first fits and the second does not, or was not tried; None: enough."""
    if not tried:
        return below + 1
    if above - below <= max(1, below // _EXACT):
        # What the range ends with is no answer unless it was tried.
        return above - 1 if above not in tried and above - 1 > below else None
    middle = (below + above) // 2
    if above - below <= max(2, below // _NEAR):
        return middle
    if len(tried) == 1:
        return min(2 * below, middle)
    if len(tried) == 2:
        return _by_line(tried, below, above)
    # Where the line has led, the answer is near; if it is not, there is no line.
    if len(tried) == 3:
        beside = below + max(1, below // _NEAR) if max(tried) == below else above - max(1, above // _NEAR)
        return beside if below < beside < above else middle
    return middle


def _by_line(tried: dict[int, Verdict], below: int, above: int) -> int:
    points = sorted((value, _needed(verdict)) for value, verdict in tried.items() if verdict.fits)
    if len(points) < 2 or points[1][1] <= points[0][1]:
        return (below + above) // 2
    (first, used_first), (last, used_last) = points
    slope = (used_last - used_first) / (last - first)
    value = last + int((tried[last].gpu.memory_bytes - used_last) / slope)
    return min(max(value, below + 1), above - 1)


def _needed(verdict: Verdict) -> int:
    """Without what an allocator holds because there is room for it, which does not grow as a line."""
    peak = verdict.worst.peak if verdict.worst is not None else None
    return 0 if peak is None else peak.used_bytes - peak.components.get(WASTE, 0)


def _used(verdict: Verdict) -> int:
    return verdict.worst.most_used_bytes if verdict.worst is not None else 0


def _run(tried: Mapping[Value, Verdict], fit: Callable[[Value], Verdict], value: Value) -> Verdict:
    """Of an interruption in which no program ran, the verdict that the program's would have been."""
    try:
        return fit(value)
    except KeyboardInterrupt:
        if not tried:
            raise
        last = next(reversed(tried.values()))
        nothing = {"ranks": (), "changes": (), "guesses": (), "not_modelled": (), "needs_bytes": None, "error": ""}
        return dataclasses.replace(
            last, fits=None, ended=INTERRUPTED, exit_status=INTERRUPTED_STATUS, steps=0, seconds=0.0, **nothing
        )


def _with_runs(
    tried: Mapping[Value, Verdict], shown: Value, searched: str, answer: Value | None, *, is_last: bool = False
) -> Verdict:
    """The verdict of the run that is shown, with what all others came to."""
    runs = tuple(
        Tried(str(value), verdict.fits, _used(verdict), verdict.ended, verdict.exit_status)
        for value, verdict in tried.items()
    )
    text = "" if answer is None else str(answer)
    return dataclasses.replace(tried[shown], searched=searched, tried=runs, found=text, found_is_last=is_last)


def smallest(names: Sequence[str], fit: Callable[[str], Verdict]) -> tuple[Verdict, str | None]:
    """The first of these names, of GPUs that grow, that fits, and its verdict.

    None: not even the last does, or a run says neither, and is the verdict.
    """
    tried: dict[str, Verdict] = {}
    below, above = -1, len(names)
    while above - below > 1:
        middle = (below + above) // 2
        verdict = tried[names[middle]] = _run(tried, fit, names[middle])
        if verdict.fits is None:
            return _with_runs(tried, names[middle], "GPU", None), None
        below, above = (below, middle) if verdict.fits else (middle, above)
    answer = names[above] if above < len(names) else None
    return _with_runs(tried, answer or names[below], "GPU", answer), answer
