"""Puts what was recorded into the documents: `python tools/pictures` writes it, and nobody by hand.

A document has a figure, the rows of a table or the lines of a code block between `<!--MODULE.KEY-->` and `<!--/-->`,
where the module's told() has the key; the head of a table and the fence of a block stay as they are. No line of text
begins with a mark: Markdown would take the line as HTML. What is said of a picture, for who does not see it, is the key
"said" of the module that draws it.
"""

from __future__ import annotations

import pathlib
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from . import ROOT

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
MARK = re.compile(r"<!--(\w+)\.(\w+)-->((?:(?!<!--).)*)<!--/-->", re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]*?(\w+)\.svg)\)")
# Of a table the names of its columns and the line below them, of a code block its fence.
_HEAD = re.compile(r"\s*(\|.*\n\|[-:| ]+\|\n|```\w*\n)")
COMMAND = "python tools/pictures"


def filled(document: pathlib.Path, told: Mapping[str, Mapping[str, str]]) -> str:
    """The document's text with the figures that are told, by module and key.

    Raises KeyError if it asks for one that is not told.
    """

    def figure(found: re.Match[str]) -> str:
        module, key, before = found.groups()
        text = told[module][key]
        if head := _HEAD.match(before):
            foot = "\n```" if head[1].startswith("`") else ""
            text = f"\n\n{head[1]}{text}{foot}\n\n"
        return f"<!--{module}.{key}-->{text}<!--/-->"

    def words(found: re.Match[str]) -> str:
        said = textwrap.fill(f"![{told[found[2]]['said']}", 120, break_long_words=False, break_on_hyphens=False)
        return f"{said}]({found[1]})"

    return _PICTURE.sub(words, MARK.sub(figure, document.read_text(encoding="utf-8")))


def rows(*cells: tuple[object, ...]) -> str:
    """Of a table, each with its cells."""
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in cells)


# --- How figures and errors are told.


def gib(size: float) -> str:
    return f"{size / (1 << 30):.2f}"


def mib(size: float) -> str:
    return f"{size / (1 << 20):,.0f}"


def word(count: int) -> str:
    return ("no", "one", "two", "three", "four")[count]


def most(run: dict[str, Any]) -> tuple[int, int]:
    """The most in use, and the most held."""
    used, held = zip(*run["steps"], strict=True)
    return max(used), max(held)


def refused(run: dict[str, Any]) -> dict[str, str]:
    """What PyTorch's error says: what was asked for, and what of its own was free."""
    request = re.search(r"Tried to allocate (\S+ MiB)", run["error"])
    free = re.search(r"and (\S+ MiB) is reserved by PyTorch but unallocated", run["error"])
    return {"refused": request[1], "free": free[1]}


def excerpt(error: str, *entries: str) -> str:
    """Of frugal_alloc's error its verdict, and the entries that begin so; `...` stands for what is left out."""
    sentence, rest = error.split("\n", 1)
    verdict, others = re.split(r"^(?=Request )", rest, maxsplit=1, flags=re.MULTILINE)
    parts = [f"{sentence}\n", verdict, *re.split(r"^(?=\S)", others, flags=re.MULTILINE)]
    kept = "".join(one if one is verdict or one.startswith(entries) else "...\n" for one in parts if one)
    return re.sub(r"(?:\.\.\.\n)+", "...\n", kept).rstrip()
