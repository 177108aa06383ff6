"""What the user expects to grow, or does not want to hear of: declared in the program, or in a file of suppressions."""

from __future__ import annotations

import fnmatch
import re
from typing import NamedTuple

from .._common import recorded_files
from .._common.messages import format_bytes
from .._native import FrugalAllocError
from .._program import code_lines
from .._program.code_lines import CodeLine

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


def read(path: str) -> list[Suppression]:
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
    found = []
    for number, line in enumerate(lines, 1):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if text:
            found.append(_parse(text, f"{path}:{number}"))
    return found


def _parse(text: str, where: str) -> Suppression:
    shown = text[:_MOST_CHARACTERS_SHOWN]
    kind, colon, pattern = (part.strip() for part in text.partition(":"))
    if not colon or kind not in KINDS or not pattern:
        raise FrugalAllocError(
            f"{where}: {shown!r} is no suppression; write KIND:PATTERN, such as leak:train.py:42, "
            f"where KIND is one of {', '.join(KINDS)}"
        )
    return Suppression(kind, pattern)
