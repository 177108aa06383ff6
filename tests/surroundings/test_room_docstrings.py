"""Each room of the Python package says what it imports from, as it is."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "frugal_alloc"
sys.path.insert(0, str(ROOT / "tools"))

import python_rooms  # noqa: E402


def _imported_rooms() -> dict[str, set[str]]:
    """By room, the others that it imports from; not the package's own face."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, imported in python_rooms.imports(PACKAGE).items():
        own = python_rooms.room(module)
        others = {python_rooms.room(other) for other in imported} - {own, python_rooms.PACKAGE}
        found[own.rpartition(".")[2]] |= {other.rpartition(".")[2] for other in others}
    return found


IMPORTED = _imported_rooms()
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("_*/__init__.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_room_names_what_it_imports_from(room: str) -> None:
    text = " ".join(ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())).split())
    named = re.search(r"Imports from (.+?)\.(?: |$)|Imports nothing of the package", text)
    assert named, text
    assert set(re.findall(r"``(\w+)``", named[1] or "")) == IMPORTED[room]
