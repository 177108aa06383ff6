"""Markdown as the page of a repository reads it, put into what Python-Markdown reads alike.

The two differ in lists: there, what belongs to an item begins where the item's text does, and a list may follow a
paragraph without an empty line.
"""

from __future__ import annotations

import re

_ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)])( +)(?=\S)")
_FENCE = re.compile(r" *(`{3,}|~{3,})")
_INDENT = "    "


def convert(text: str) -> str:
    lines = _Lines()
    for line in text.split("\n"):
        lines.add(line)
    return "\n".join(lines.done)


class _Lines:
    def __init__(self) -> None:
        self.done: list[str] = []
        # Where the texts of the items begin that the line is in, the outermost first.
        self._texts: list[int] = []
        self._fence = ""
        self._fence_indent = 0
        # Of the line before: whether it belongs to an item, and whether that has had an empty line.
        self._is_in_item = False
        self._has_paragraphs = False

    def add(self, line: str) -> None:
        if self._fence:
            self._in_fence(line)
        elif not line.strip():
            self.done.append("")
        else:
            self._add_text(line)

    def _in_fence(self, line: str) -> None:
        indent = min(_indent(line), self._fence_indent)
        self._put(line[indent:])
        if line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
            self._fence = ""

    def _add_text(self, line: str) -> None:
        indent = _indent(line)
        is_paragraph_open = bool(self.done) and bool(self.done[-1].strip())
        item = _ITEM.match(line)
        fence = _FENCE.match(line)
        # The next line of a paragraph need not be indented as its first one is.
        if item or fence or not is_paragraph_open or not self._texts:
            while self._texts and indent < self._texts[-1]:
                self._texts.pop()
        if item:
            # What Python-Markdown would take for more of the paragraph above.
            is_after_text = not self._texts and not self._is_in_item
            if is_paragraph_open and (is_after_text or self._has_paragraphs):
                self.done.append("")
            self._put(line[indent:])
            self._texts.append(item.end())
            self._is_in_item, self._has_paragraphs = True, False
            return
        self._is_in_item = bool(self._texts)
        self._has_paragraphs = self._is_in_item and (self._has_paragraphs or not is_paragraph_open)
        if fence:
            self._fence, self._fence_indent = fence[1], indent
        self._put(line[min(indent, self._texts[-1]) if self._texts else 0 :])

    def _put(self, line: str) -> None:
        self.done.append(_INDENT * len(self._texts) + line if line.strip() else "")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
