"""A line of the user's program, and how it is written: "train.py:88", or of a notebook "cell [3], line 2"."""

from __future__ import annotations

import linecache
import os
import re
import sys
from typing import Any, NamedTuple

_CELL = re.compile(r"cell \[.+\]")
# IPython's and Colab's names of cells have the number that is shown beside them.
_NUMBERED = re.compile(r"(?:<|.*/)ipython-input-(\d+)-[^/]*")
_MARIMO = re.compile(r".*/__marimo__cell_([^/]+?)_*(?:\.py)?")


class Frame(NamedTuple):
    """A line of Python that was being carried out."""

    file: str
    line: int
    function: str


class CodeLine(NamedTuple):
    """A line of the program. `node`: in its backward, the autograd node that asks, and the line is the forward's."""

    file: str
    line: int
    function: str
    phase: str = ""
    node: str = ""

    @property
    def code(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    @property
    def short(self) -> str:
        """ "train.py:88", with "backward of" where it is."""
        if not self.line:
            return f"backward, by {self.node}"
        where = written(self.file, self.line)
        return f"backward of {where}" if self.node else where


def file_name(file: str) -> str:
    """The file's path as it is; of a notebook's cell "cell [3]", by the number of its execution."""
    number = _cell(file)
    return file if number is None else f"cell [{number}]"


def written(file: str, line: int | None, shorten: bool = True) -> str:
    """As the module says.

    Args:
        file: Its path, or what `file_name` made of it.
        line: None where only the file is known.
        shorten: Whether to write the path as `short_path` does.
    """
    name = file_name(file)
    if _CELL.fullmatch(name):
        return name if line is None else f"{name}, line {line}"
    name = short_path(name) if shorten else name
    return name if line is None else f"{name}:{line}"


def source(file: str, line: int) -> str:
    """The source of a line, without its indentation; "" where it cannot be read."""
    return linecache.getline(file, line).strip()[:200]


def short_path(file: str) -> str:
    """Relative to the working directory if the file is in it, else its last two parts."""
    name = file_name(file)
    try:
        relative = os.path.relpath(name) if os.path.isabs(name) else name
    except (ValueError, OSError):
        relative = name
    if not relative.startswith(".."):
        return relative
    return os.path.join(*name.split(os.sep)[-2:]) if os.sep in name else name


def notebook() -> Any:
    """IPython's shell; None in a program that is no notebook."""
    # Not imported: a program that is no notebook has none.
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython() if callable(get_ipython) else None


def _cell(file: str) -> str | None:
    """The number of the cell's latest execution; None: the file is no cell, or of one that was not carried out here."""
    if (match := _NUMBERED.fullmatch(file) or _MARIMO.fullmatch(file)) is not None:
        return match[1]
    numbers = getattr(getattr(notebook(), "compile", None), "_filename_map", None)
    number = numbers.get(file) if isinstance(numbers, dict) else None
    return None if number is None else str(number)
