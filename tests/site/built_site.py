"""A built site as its readers' browsers have it: pages with their anchors, links and what they load."""

from __future__ import annotations

import dataclasses
import functools
import html.parser
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TOOL = ROOT / "tools" / "site"
sys.path[:0] = [str(TOOL), str(ROOT / "tools")]

# Python reads this before a program begins. What it refuses stays refused: a hook cannot be taken off again.
NO_NETWORK = """
import sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        print("asked the network:", event, arguments, file=sys.stderr)
        raise PermissionError(f"no network here: {event}")
sys.addaudithook(refuse)
"""
# By element, the attributes that a browser follows by itself.
_LOADING = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
# Links of the head that name a page, and load nothing.
_NAMES_A_PAGE = {"next", "prev", "canonical", "alternate"}


@dataclasses.dataclass
class Page(html.parser.HTMLParser):
    """One page, by its path in the site."""

    path: str
    anchors: set[str] = dataclasses.field(default_factory=set)
    links: list[str] = dataclasses.field(default_factory=list)
    loads: list[str] = dataclasses.field(default_factory=list)
    classes: set[str] = dataclasses.field(default_factory=set)
    components: set[str] = dataclasses.field(default_factory=set)
    pictures_without_text: list[str] = dataclasses.field(default_factory=list)
    #: By anchor, the text up to the next one.
    texts: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._anchor = ""
        self._is_text = True

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self._is_text = tag not in ("script", "style")
        if "id" in found:
            self._anchor = found["id"]
            self.anchors.add(self._anchor)
            self.texts[self._anchor] = ""
        self.classes |= set(found.get("class", "").split())
        self.components.add(found.get("data-md-component", ""))
        if tag in ("a", "area") and "href" in found:
            self.links.append(found["href"])
        if tag == "img" and not found.get("alt"):
            self.pictures_without_text.append(found.get("src", ""))
        if not (tag == "link" and _NAMES_A_PAGE & set(found.get("rel", "").split())):
            self.loads += [found[name] for name in _LOADING.get(tag, ()) if found.get(name)]

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        self._is_text = True

    def handle_data(self, data: str) -> None:
        if self._is_text and self._anchor:
            self.texts[self._anchor] += data


@dataclasses.dataclass(frozen=True)
class Site:
    folder: Path

    @functools.cached_property
    def pages(self) -> dict[str, Page]:
        found = {}
        for file in sorted(self.folder.rglob("*.html")):
            path = file.relative_to(self.folder).as_posix()
            found[path] = Page(path)
            found[path].feed(file.read_text())
        return found

    def documents(self) -> dict[str, Page]:
        """The pages that the theme draws: all but the example reports, which are pages by themselves."""
        return {path: page for path, page in self.pages.items() if "md-main" in page.classes}

    def page(self, document: str) -> Page:
        return self.pages[page_of(document)]

    def broken(self) -> Iterator[str]:
        """Links and loaded files that lead nowhere in the site."""
        for path, page in self.pages.items():
            for link in (*page.links, *page.loads):
                parts = urlsplit(link)
                if parts.scheme or parts.netloc or link == "javascript:":
                    continue
                target = (
                    os.path.normpath(os.path.join(os.path.dirname(path), unquote(parts.path))) if parts.path else path
                )
                if target.startswith("..") or not (self.folder / target).is_file():
                    yield f"{path}: {link}: there is no {target}"
                elif parts.fragment and target in self.pages and not self._has(target, unquote(parts.fragment)):
                    yield f"{path}: {link}: no such anchor"

    def _has(self, path: str, anchor: str) -> bool:
        # The theme's own jump to the top.
        return anchor in self.pages[path].anchors or anchor == "__top"


def page_of(document: str) -> str:
    """Where the site has a document, both by their paths below docs/ and the site."""
    return (
        document.removesuffix("README.md") + "index.html" if document.endswith("README.md") else f"{document[:-3]}.html"
    )


def run(
    *arguments: str, environment: Mapping[str, str] | None = None, program: str | Path = TOOL
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(program), *arguments],
        cwd="/",
        env=os.environ if environment is None else environment,
        capture_output=True,
        text=True,
    )
