"""The order of the site's pages. What lies in a folder of its own is taken up in the order of that folder's README."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from . import DOCS

HOW_TO = (
    "compatibility.md",
    "leaks.md",
    "out_of_memory.md",
    "reports.md",
    "reports/examples/README.md",
    "fit.md",
    "check.md",
    "monitoring.md",
    "tuning.md",
    "cpp.md",
    "gpu_check.md",
)
EXPLANATION = (
    "architecture.md",
    "performance.md",
    "reliability.md",
    "simulated_gpu.md",
    "hardware.md",
    "words.md",
)
_LINK = re.compile(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)")


def navigation(generated: Sequence[str], last: Sequence[str] = ()) -> list[dict[str, Any]]:
    """What mkdocs.yml would have as `nav`; `generated` are the reference's pages, and `last` what stands at the end.

    A document that does not exist yet is left out, and one that no list names comes last among the how-to pages.
    """
    sections = {
        "Tutorials": list(folder("tutorials")),
        "Stories": list(folder("stories")),
        "How-to": _existing(HOW_TO),
        "Reference": ["reference/README.md", *generated],
        "Explanation": [*_existing(EXPLANATION), *folder("pictures")],
    }
    decisions = list(folder("decisions"))
    named = {"index.md", *decisions, *(page for pages in sections.values() for page in pages)}
    others = [page for page in documents() if page not in named]
    sections["How-to"] += others
    sections["Explanation"] += [{"Decisions": decisions}] if decisions else []
    sections["Explanation"] += last
    return [{"Home": "index.md"}, *({title: pages} for title, pages in sections.items() if pages)]


def documents() -> list[str]:
    """The documents' paths below docs/."""
    return sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def folder(name: str) -> Iterator[str]:
    """Its README, then the pages that the README names, in this order, then the others."""
    place = DOCS / name
    readme = place / "README.md"
    pages = sorted(path.name for path in place.glob("*.md") if path != readme)
    if readme.exists():
        yield f"{name}/README.md"
        named = [link for link in _LINK.findall(readme.read_text(encoding="utf-8")) if link in pages]
        pages.sort(key=lambda page: named.index(page) if page in named else len(named))
    yield from (str(pathlib.PurePosixPath(name, page)) for page in pages)


def _existing(pages: Sequence[str]) -> list[str]:
    return [page for page in pages if (DOCS / page).exists()]
