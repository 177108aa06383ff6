"""The lint rule for Python classes counts a class's own public functions, in modules and in scripts."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import python_classes  # noqa: E402

MOST = python_classes.MOST_FUNCTIONS


def found(root: Path, name: str, source: str) -> list[str]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return python_classes.found(root)


def with_functions(count: int, bases: str = "") -> str:
    functions = [f"    def f{number}(self): ..." for number in range(count)]
    return "\n".join([f"class Big{bases}:", *functions, ""])


def test_limit_itself_is_allowed(tmp_path: Path) -> None:
    assert found(tmp_path, "bench/big.py", with_functions(MOST)) == []


def test_class_above_the_limit_is_told_with_its_line(tmp_path: Path) -> None:
    line = f"bench/big.py:2: class Big has {MOST + 1} public functions, limit {MOST}"
    assert found(tmp_path, "bench/big.py", "\n" + with_functions(MOST + 1)) == [line]


def test_class_in_a_script_is_told(tmp_path: Path) -> None:
    assert len(found(tmp_path, "tools/big", "#!/usr/bin/env python3\n" + with_functions(MOST + 1))) == 1


def test_script_of_another_language_is_left_alone(tmp_path: Path) -> None:
    assert found(tmp_path, "tools/big", "#!/bin/sh\nclass Big has so many\n") == []


def test_private_functions_are_not_counted(tmp_path: Path) -> None:
    source = with_functions(MOST) + "    def _more(self): ...\n    def __len__(self): ...\n"
    assert found(tmp_path, "tests/big.py", source) == []


def test_functions_of_a_class_above_are_not_counted(tmp_path: Path) -> None:
    source = with_functions(MOST) + "class Bigger(Big):\n    def more(self): ...\n"
    assert found(tmp_path, "tests/big.py", source) == []


def test_property_and_its_setter_are_one(tmp_path: Path) -> None:
    more = "    @property\n    def one(self): ...\n    @one.setter\n    def one(self, value): ...\n"
    assert found(tmp_path, "tests/big.py", with_functions(MOST - 1) + more) == []


def test_class_within_a_function_counts(tmp_path: Path) -> None:
    indented = "".join(f"    {line}\n" for line in with_functions(MOST + 1).splitlines())
    assert len(found(tmp_path, "bindings/frugal_alloc/big.py", "def f():\n" + indented)) == 1
