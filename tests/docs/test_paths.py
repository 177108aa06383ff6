"""Files, headings and rooms that a document names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(path for folder in ("docs", "bench", "simulated_gpu") for path in (ROOT / folder).rglob("*.md")),
]
# A file of the repository, or a folder of it; not the command-line's, and no pattern.
PATH = re.compile(
    r"(?<![\w/.*])((?:allocator|bench|bindings|conda|cuda|docs|simulated_gpu|tests|tools)/[\w./]*\w(?:\.\w+)?)(?![\w/*])"
)
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([\w-]+))?\)")
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
SUFFIXES = ("", ".h", ".cc", ".py", ".jinja", ".txt")
ROOMS = {
    "The policy, room by room": "allocator",
    "The adapter": "bindings",
    "The Python package": "bindings/frugal_alloc",
}


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def headings(document: Path) -> set[str]:
    """Their anchors, as the page of a repository makes them."""
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def exists(path: str) -> bool:
    """As a file, a folder, a source without its suffix, or a program that was built from one."""
    return any((ROOT / (path + suffix)).exists() for suffix in SUFFIXES)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_files_that_a_document_names_exist(document: Path) -> None:
    named = set(PATH.findall(document.read_text(encoding="utf-8")))
    assert {path for path in named if not exists(path)} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_of_a_document_lead_to_files_and_headings_that_exist(document: Path) -> None:
    for path, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), path
        assert not anchor or anchor in headings(target), f"{path}#{anchor}"


@pytest.mark.parametrize("section, folder", ROOMS.items())
def test_files_of_the_architectures_tables_are_in_their_rooms(section: str, folder: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.split(f"### {section}\n", 1)[1].split("\n#", 1)[0]
    room, missing, files = "", [], 0
    for first, second in re.findall(r"^\|(.*?)\|(.*?)\|", table, re.MULTILINE):
        for word in re.findall(r"`(\w+/?)`", first):
            room = word if word != f"{folder}/" else ""
            missing += [] if (ROOT / folder / room).exists() or exists(f"{folder}/{word}") else [word]
        if folder == "bindings/frugal_alloc":
            continue
        for file in re.findall(r"`(\w+)`", second):
            files += 1
            missing += [] if exists(f"{folder}/{room}{file}") else [f"{room}{file}"]
    assert not missing
    assert files or folder == "bindings/frugal_alloc"
