"""What the site is made of beside the documents: its order, its links, its reference and its examples."""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "bindings" / "frugal_alloc"
sys.path.append(str(ROOT / "tools"))


def anchor(heading: str, separator: str = "-") -> str:
    """A heading's anchor, as the page of a repository makes it."""
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", separator)
