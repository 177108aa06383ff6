"""Where links of the documents to files of the repository lead on the site."""

from __future__ import annotations

import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_REPORTS = DOCS / "reports" / "examples"
_LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[\w-]+)?\)")


def from_root(markdown: str) -> str:
    """A text of the repository's folder, as a page of docs/."""
    return _LINK.sub(
        lambda found: f"[{found[1]}]({os.path.relpath(ROOT / found[2], DOCS)}{found[3] or ''})",
        markdown,
    )


def led(markdown: str, page: str, source: str) -> str:
    """The text of a page below docs/; `source` is the address of the repository's files, with {} for "blob" or "tree".

    Until the project has an address, it is "", and a file outside of docs/ is named and not linked.
    """

    def link(found: re.Match[str]) -> str:
        words, path, place = found[1], found[2], found[3] or ""
        target = pathlib.Path(os.path.normpath(DOCS / page / ".." / path))
        if target.is_relative_to(_REPORTS) and target.suffix == ".json":
            # The site has the page that is drawn from it.
            return f"[{words}]({path.removesuffix('.json')}.html)"
        if target.is_relative_to(DOCS) or not target.is_relative_to(ROOT):
            return found[0]
        address = source.format("tree" if target.is_dir() else "blob")
        return f"[{words}]({address}{target.relative_to(ROOT)}{place})" if address else words

    return _LINK.sub(link, markdown)
