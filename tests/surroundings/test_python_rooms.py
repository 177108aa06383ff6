"""The lint rule for imports of the Python package sees circles of modules and of rooms, and only these."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import python_rooms  # noqa: E402


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "__init__.py").write_text("__version__ = '1'\n")
    for folder in ("_low", "_high"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    return tmp_path


def circles(package: Path, **sources: str) -> list[str]:
    for name, source in sources.items():
        (package / f"{name.replace('__', '/')}.py").write_text(source)
    return python_rooms.circles(package)


def test_rooms_in_one_order_are_no_circle(package: Path) -> None:
    assert not circles(package, _low__a="", _high__b="from .._low import a\nfrom . import c", _high__c="import os")


def test_modules_that_import_each_other_are_told(package: Path) -> None:
    found = circles(package, _low__a="from . import b", _low__b="def f():\n    from .a import x")
    assert found == ["modules import each other: frugal_alloc._low.a -> frugal_alloc._low.b -> frugal_alloc._low.a"]


def test_rooms_that_import_each_other_are_told_though_no_modules_do(package: Path) -> None:
    found = circles(
        package, _low__a="from .._high import b", _high__b="", _high__c="from frugal_alloc._low.d import x", _low__d=""
    )
    assert found == ["rooms import each other: frugal_alloc._high -> frugal_alloc._low -> frugal_alloc._high"]


def test_a_long_way_round_is_told_once(package: Path) -> None:
    found = circles(package, _a="from . import _b", _b="from . import _c", _c="import frugal_alloc._a")
    assert found == [
        f"{kind} import each other: frugal_alloc._a -> frugal_alloc._b -> frugal_alloc._c -> frugal_alloc._a"
        for kind in ("modules", "rooms")
    ]


def test_what_the_package_itself_gives_is_no_circle(package: Path) -> None:
    (package / "__init__.py").write_text("def f():\n    from ._low import a\n")
    assert not circles(package, _low__a="from .. import __version__")


def test_the_package_has_none() -> None:
    assert python_rooms.circles(ROOT / "bindings" / "frugal_alloc") == []
