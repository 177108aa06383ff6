"""What the user says of a program: the names of its phases, what will grow, and what no verdict is to be told of."""

from __future__ import annotations

import contextlib
import fnmatch
import re
import threading
from typing import NamedTuple

from .. import _native
from .._common import recorded_files
from .._common.messages import format_bytes
from .._native import FrugalAllocError
from .._program import code_lines
from .._program.code_lines import CodeLine


class _Open(threading.local):
    """The names of the phases that each thread is in, the innermost last."""

    def __init__(self) -> None:
        self.names: list[str] = []


_open = _Open()


class Phase(contextlib.ContextDecorator):
    """What this thread allocates within it belongs to the phase. May be nested and, as a decorator, recursive."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._before: list[str | None] = []

    def __enter__(self) -> Phase:
        library = _native.loaded()
        self._before.append(None if library is None else library.set_phase(self.name))
        _open.names.append(self.name)
        return self

    def __exit__(self, *_: object) -> None:
        before = self._before.pop()
        _open.names.pop()
        library = _native.loaded()
        # One that was begun before enable() has nothing to go back to.
        if library is not None:
            library.set_phase(before or "")

    def _recreate_cm(self) -> Phase:
        # Each call of a decorated function, in each thread, has its own.
        return type(self)(self.name)


def checked_name(name: object, what: str) -> str:
    """`name`, if it is a text that is not empty.

    Raises:
        FrugalAllocError: it is none.
    """
    if not isinstance(name, str) or not name.strip():
        raise _native.FrugalAllocError(f"{what}({name!r}) is not possible; give a name, such as {what}('evaluation')")
    return name


def current() -> str:
    """The phase of this thread."""
    return _open.names[-1] if _open.names else ""


# Declared before enable() holds, too, so these are the process's and not a tracker's.
_expected: dict[str, None] = {}


class Expectation(Phase):
    """Declared as it is made; as a context manager or decorator also the phase of what it expects to grow."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        _expected[name] = None


def is_silenced(kind: str, code_line: CodeLine | None, suppressions: list[Suppression]) -> bool:
    """Whether a verdict is not to be told: expected by the program, or suppressed by the user's file."""
    if code_line is not None and any(matches(pattern, code_line) for pattern in tuple(_expected)):
        return True
    return any(suppression.covers(kind, code_line) for suppression in suppressions)


# Some thousand lines for each of the largest program's files.
_MOST_BYTES = 16 << 20
_MOST_CHARACTERS_SHOWN = 100

KINDS = ("leak", "suspect", "growing", "cycle", "outside", "*")


class Suppression(NamedTuple):
    """A kind of verdict (or "*"), and a pattern as in a shell over "file:line", the function or the phase."""

    kind: str
    pattern: str

    def covers(self, kind: str, code_line: CodeLine | None) -> bool:
        if self.kind not in ("*", kind):
            return False
        if code_line is None:
            return self.pattern == "*"
        return matches(self.pattern, code_line)


def matches(pattern: str, code_line: CodeLine) -> bool:
    """Whether the pattern names the line; a file may be given by the last parts of its path, with or without line."""
    # A cell's name, "cell [3]" or "cell [3], line 2", has brackets, which would be a pattern of their own.
    written = (code_lines.file_name(code_line.file), code_lines.written(code_line.file, code_line.line))
    if pattern in (code_line.phase, code_line.function, *written) and pattern:
        return True
    with_line = f"{code_line.file}:{code_line.line}"
    texts = (with_line, code_line.file, code_line.function, code_line.phase)
    return any(
        fnmatch.fnmatchcase(text, form) for text in texts if text for form in (pattern, "*/" + pattern.lstrip("/"))
    )


def read_suppressions(path: str) -> list[Suppression]:
    """The suppressions of a file, one ``kind:pattern`` a line; "" names no file.

    Raises:
        FrugalAllocError: the file cannot be read, or a line is no suppression.
    """
    if not path:
        return []
    try:
        with recorded_files.open_file(path) as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise recorded_files.UnreadableFile(f"{path} has more than {format_bytes(_MOST_BYTES)}")
        lines = data.decode().splitlines()
    except recorded_files.UnreadableFile as error:
        raise FrugalAllocError(f"the file of suppressions cannot be read: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise FrugalAllocError(f"the file of suppressions {path} cannot be read: {reason}") from None
    texts = ((number, re.sub(r"(^|\s)#.*", "", line).strip()) for number, line in enumerate(lines, 1))
    return [_parse(text, f"{path}:{number}") for number, text in texts if text]


def _parse(text: str, where: str) -> Suppression:
    shown = text[:_MOST_CHARACTERS_SHOWN]
    kind, colon, pattern = (part.strip() for part in text.partition(":"))
    if not colon or kind not in KINDS or not pattern:
        raise FrugalAllocError(
            f"{where}: {shown!r} is no suppression; write KIND:PATTERN, such as leak:train.py:42, "
            f"where KIND is one of {', '.join(KINDS)}"
        )
    return Suppression(kind, pattern)
