"""The mutation check's Python side: which wrong changes there are, and that the fixed list names such as there are."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "mutation"))
import python_mutations  # noqa: E402

SOURCE = """
MOST = 10  # no mutant: not in a function


def clamp(value, calls):
    calls.append(value)
    if value > MOST and not calls:
        return max(MOST, 0)
    return f"{value + 1}" if value < 0 else value
"""


def changed(mutant: python_mutations.Mutant, *arguments: object) -> object:
    names: dict[str, object] = {}
    exec(compile(mutant.text, "small.py", "exec"), names)
    return names["clamp"](*arguments)  # type: ignore[operator]


def test_each_kind_of_mistake_is_found_once_with_its_place() -> None:
    keys = [mutant.key for mutant in python_mutations.find("small.py", SOURCE)]
    assert "small.py | clamp | calls.append(value)  ->  pass" in keys
    assert "small.py | clamp | value > MOST and not calls  ->  False" in keys
    assert "small.py | clamp | value > MOST and not calls  ->  value > MOST" in keys
    assert "small.py | clamp | value > MOST  ->  value >= MOST" in keys
    assert "small.py | clamp | not calls  ->  calls" in keys
    assert "small.py | clamp | max  ->  min" in keys
    assert "small.py | clamp | 0  ->  1" in keys
    assert "small.py | clamp | value < 0  ->  True" in keys
    assert not [key for key in keys if "MOST = 10" in key or "value + 1" in key]
    assert len(set(keys)) == len(keys)


def test_a_mutant_is_the_source_with_one_change() -> None:
    mutants = {mutant.key.rpartition(" | ")[2]: mutant for mutant in python_mutations.find("small.py", SOURCE)}
    calls: list[int] = []
    assert changed(mutants["calls.append(value)  ->  pass"], 3, calls) == 3
    assert calls == []
    assert changed(mutants["value < 0  ->  True"], 3, calls) == "4"


def test_each_of_the_fixed_list_is_still_there() -> None:
    """Where code has moved, its line in the list moves along; a third of the list is Python."""
    lines = (ROOT / "tools" / "mutation" / "mutants.fixed").read_text().splitlines()
    listed = dict(line.partition("  @  ")[::2] for line in lines if line and not line.startswith("#"))
    python = {key for key, tests in listed.items() if tests}
    assert len(listed) == 200
    assert len(python) >= 66
    files = {key.partition(" | ")[0] for key in python}
    there = {mutant.key for file in files for mutant in python_mutations.find(file, (ROOT / file).read_text())}
    assert python <= there
    paths = {re.sub("::.*", "", test) for tests in listed.values() for test in tests.split()}
    assert all((ROOT / path).exists() for path in paths)
