"""Links of the documents to files outside of docs/.

Once the project has an address, they lead to the repository's page. Until then the site has a page with such a file's
text, or of a folder's files; what cannot be shown so is a path without a link.
"""

from __future__ import annotations

import pathlib
import posixpath
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import project_metadata
from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

from . import DOCS, ROOT

FOLDER = "repository"
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")
_MOST_BYTES = 1 << 17
_LANGUAGES = {
    ".cc": "cpp",
    ".h": "cpp",
    ".py": "python",
    ".json": "json",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".toml": "toml",
    ".txt": "text",
    ".csv": "text",
    ".cff": "yaml",
    "": "text",
}


class RepositoryPages:
    """By path in the repository, the pages that show files which documents link to."""

    def __init__(self) -> None:
        project = project_metadata.read()
        self._home = f"{project.home}/{{}}/v{project.version}/" if project.home else ""
        #: By name below docs/, the text.
        self.pages: dict[str, str] = {}
        if not self._home:
            self._collect()

    def target(self, path: pathlib.Path) -> str | None:
        """Where a link to a file outside of docs/ leads: an address, or a page's name below docs/; None: nowhere."""
        relative = path.relative_to(ROOT).as_posix()
        if self._home:
            return self._home.format("tree" if path.is_dir() else "blob") + relative
        name = _page_name(path)
        return name if name in self.pages else None

    def _collect(self) -> None:
        """What documents link to, and the documents that those link to, and so on; of folders there, names alone."""
        waiting = [(link, True) for document in sorted(DOCS.rglob("*.md")) for link in _links_out(document)]
        while waiting:
            path, is_near = waiting.pop(0)
            name = _page_name(path)
            if name in self.pages or not path.exists():
                continue
            if path.is_dir() and (path / "README.md").exists():
                waiting.insert(0, (path / "README.md", False))
            elif path.is_dir() and is_near:
                self.pages[name] = _folder_page(path)
                waiting += [(one, True) for one in sorted(path.iterdir()) if _is_shown(one)]
            elif _is_shown(path) and (is_near or path.suffix == ".md"):
                self.pages[name] = _file_page(path)
                waiting += [(link, False) for link in _links_out(path)] if path.suffix == ".md" else []


def _page_name(path: pathlib.Path) -> str:
    """Below docs/. A folder is shown by its README, if it has one."""
    if path.is_dir():
        path = path / "README.md" if (path / "README.md").exists() else path / "index.md"
    relative = path.relative_to(ROOT).as_posix()
    return f"{FOLDER}/{relative}" + ("" if path.suffix == ".md" else ".md")


def _is_shown(path: pathlib.Path) -> bool:
    is_text = path.suffix in _LANGUAGES or path.suffix == ".md"
    return path.is_file() and is_text and path.stat().st_size <= _MOST_BYTES


def _links_out(document: pathlib.Path) -> Iterator[pathlib.Path]:
    for link in _LINK.findall(document.read_text(encoding="utf-8")):
        path = (document.parent / link).resolve()
        if path.is_relative_to(ROOT) and not path.is_relative_to(DOCS):
            yield path


def _file_page(path: pathlib.Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return (
        f"# {path.name}\n\n`{path.relative_to(ROOT)}`\n\n{fence}{_LANGUAGES[path.suffix]}\n{text.rstrip()}\n{fence}\n"
    )


def _folder_page(path: pathlib.Path) -> str:
    names = [one.name for one in sorted(path.iterdir()) if _is_shown(one)]
    lines = [f"- [{name}]({posixpath.join('.', name)})" for name in names]
    return f"# {path.name}\n\n`{path.relative_to(ROOT)}/`\n\n" + "\n".join(lines) + "\n"


def source_of(name: str) -> pathlib.Path:
    """The file that a page of the site stands for."""
    if name.startswith(f"{FOLDER}/"):
        path = ROOT / name.removeprefix(f"{FOLDER}/")
        return path if path.exists() else path.with_suffix("")
    return DOCS / name


class RepositoryLinks(Extension):
    """Has the links of the page `current` lead where the site has what they name."""

    def __init__(self, pages: RepositoryPages, replaced: dict[str, str]) -> None:
        """`replaced`: by file below docs/, the one that the site shows in its place."""
        super().__init__()
        self.current = ""
        self._pages = pages
        self._replaced = replaced

    def extendMarkdown(self, md: Markdown) -> None:
        # After the links are made, and before MkDocs looks at them.
        md.treeprocessors.register(_LinkProcessor(md, self), "repository links", 5)

    def pages(self) -> dict[str, str]:
        return self._pages.pages

    def lead(self, element: ElementTree.Element, attribute: str) -> None:
        link = element.get(attribute, "")
        path, hash_sign, fragment = link.partition("#")
        if not path or re.match("[a-z]+:|/", path):
            return
        target = (source_of(self.current).parent / path).resolve()
        if not target.is_relative_to(ROOT):
            return
        if target.is_relative_to(DOCS):
            name: str | None = target.relative_to(DOCS).as_posix()
            name = f"{name}/README.md" if target.is_dir() else self._replaced.get(name, name)
        else:
            name = self._pages.target(target)
        if name is None:
            del element.attrib[attribute]
            element.tag = "span"
        elif ":" in name:
            element.set(attribute, name + hash_sign + fragment)
        else:
            element.set(attribute, posixpath.relpath(name, posixpath.dirname(self.current)) + hash_sign + fragment)


class _LinkProcessor(Treeprocessor):
    def __init__(self, md: Markdown, links: RepositoryLinks) -> None:
        super().__init__(md)
        self._links = links

    def run(self, root: ElementTree.Element) -> None:
        for element in root.iter():
            if element.tag == "a":
                self._links.lead(element, "href")
            elif element.tag == "img":
                self._links.lead(element, "src")
