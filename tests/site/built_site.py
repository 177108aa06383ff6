"""What is read from the pages of a built site."""

from __future__ import annotations

import dataclasses
import functools
from html.parser import HTMLParser
from pathlib import Path

VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "path", "source", "wbr"}


@dataclasses.dataclass
class Page:
    """What a browser would find in a page: where it leads, what it loads, and its words."""

    ids: set[str] = dataclasses.field(default_factory=set)
    links: list[str] = dataclasses.field(default_factory=list)
    loaded: list[str] = dataclasses.field(default_factory=list)
    title: str = ""
    description: str = ""
    # Of the article alone.
    text: str = ""
    elements: list[str] = dataclasses.field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        page = self.page
        page.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            page.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("prev", "next", "canonical"):
            page.loaded.append(given["href"])
        elif tag in ("script", "img", "iframe", "source", "video", "audio", "embed") and "src" in given:
            page.loaded.append(given["src"])
        elif tag == "meta" and given.get("name") == "description":
            page.description = given["content"]
        if "article" in self._open:
            page.elements.append(tag)
        if tag not in VOID:
            # The name of a file above its text is no word of the document.
            self._open.append("caption" if given.get("class") == "filename" else tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == "caption":
            self._open.pop()
        elif tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "title" and "svg" not in self._open:
            self.page.title += data
        elif "article" in self._open and not {"script", "style", "svg", "caption"} & set(self._open):
            self.page.text += data


@dataclasses.dataclass(frozen=True)
class Site:
    folder: Path

    @functools.cached_property
    def pages(self) -> dict[str, Page]:
        return {path.relative_to(self.folder).as_posix(): read(path) for path in sorted(self.folder.rglob("*.html"))}


def read(path: Path) -> Page:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page
