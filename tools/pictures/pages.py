"""Puts the figures that were recorded into the documents.

A document has a figure, or the rows of a table, between `<!--MODULE.KEY-->` and `<!--/-->`, where the module's told()
has the key. What is said of a picture, for who does not see it, is the key "said" of the module that draws it.
"""

from __future__ import annotations

import pathlib
import re
import textwrap
from collections.abc import Mapping

from . import ROOT

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
MARK = re.compile(r"<!--(\w+)\.(\w+)-->((?:(?!<!--).)*)<!--/-->", re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]*?(\w+)\.svg)\)")
# Of a table: the names of its columns, and the line below them.
_HEAD = re.compile(r"\s*(\|.*\n\|[-:| ]+\|\n)")


def filled(document: pathlib.Path, told: Mapping[str, Mapping[str, str]]) -> str:
    """The document's text with the figures that are told, by module and key.

    Raises KeyError if it asks for one that is not told.
    """

    def figure(found: re.Match[str]) -> str:
        module, key, before = found.groups()
        head = _HEAD.match(before)
        text = f"\n\n{head[1]}{told[module][key]}\n\n" if head else told[module][key]
        return f"<!--{module}.{key}-->{text}<!--/-->"

    def words(found: re.Match[str]) -> str:
        said = textwrap.fill(f"![{told[found[2]]['said']}", 120, break_long_words=False, break_on_hyphens=False)
        return f"{said}]({found[1]})"

    return _PICTURE.sub(words, MARK.sub(figure, document.read_text(encoding="utf-8")))


def rows(*cells: tuple[object, ...]) -> str:
    """Of a table, each with its cells."""
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in cells)
