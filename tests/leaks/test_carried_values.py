"""A variable that is computed from its own last value is told from one that is made anew."""

from __future__ import annotations

import textwrap

import pytest
from frugal_alloc._tracking.carried import is_carried

CARRIED = {
    "concatenated": """
        for x in data:
            value = cat([value, model(x)])
        """,
    "by way of another variable": """
        for x in data:
            parts = [value, model(x)]
            whole = cat(parts)
            value = whole
        """,
    "added to in place": """
        for x in data:
            value += model(x)
        """,
    "read by a function": """
        def longer(x):
            return cat([value, x])
        for x in data:
            value = longer(value)
        """,
    "set by a function": """
        def step(x):
            global value
            value = zeros(x)
        for x in data:
            step(x)
        """,
}
MADE_ANEW = {
    "an output": """
        for x in data:
            value = model(x)
        """,
    "from a tensor that grows": """
        for x in data:
            value = model(x) @ bank
            bank = cat([bank, x])
        """,
    "from itself, but within one turn": """
        for x in data:
            value = first(x)
            value = second(value)
        """,
    "read once the loop is over": """
        for epoch in range(9):
            for x in data:
                value = model(x)
                optimizer.step()
            print(epoch, value)
        """,
}


def _file(tmp_path, source: str) -> str:
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(source))
    return str(file)


@pytest.mark.parametrize("source", CARRIED.values(), ids=CARRIED)
def test_value_that_goes_into_the_next_one_is_carried(source, tmp_path) -> None:
    assert is_carried(_file(tmp_path, source), "<module>", "value")


@pytest.mark.parametrize("source", MADE_ANEW.values(), ids=MADE_ANEW)
def test_value_made_anew_is_not_carried(source, tmp_path) -> None:
    assert not is_carried(_file(tmp_path, source), "<module>", "value")


def test_variable_of_a_function_is_looked_for_there(tmp_path) -> None:
    file = _file(
        tmp_path,
        """
        def main():
            for x in data:
                value = model(x)

        def other():
            for x in data:
                value = cat([value, x])
        """,
    )
    assert not is_carried(file, "main", "value")
    assert is_carried(file, "other", "value")


def test_what_has_no_source_is_taken_for_carried(tmp_path) -> None:
    assert is_carried(str(tmp_path / "none.py"), "<module>", "value")
