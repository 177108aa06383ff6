"""What the program's source does with a variable: carried from one turn to the next, or used as it is gathered."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from frugal_alloc._tracking.source_flow import is_carried, is_used_in_passing

# Programs, and whether `value` goes into its own next value.
CARRIED = {
    "concatenated": (True, "for x in data:\n    value = cat([value, model(x)])"),
    "by way of another variable": (True, "for x in data:\n    parts = [value, x]\n    value = cat(parts)"),
    "added to in place": (True, "for x in data:\n    value += model(x)"),
    "read by a function": (
        True,
        """
        def longer(x):
            return cat([value, x])
        for x in data:
            value = longer(value)
        """,
    ),
    "set by a function": (
        True,
        """
        def step(x):
            global value
            value = zeros(x)
        for x in data:
            step(x)
        """,
    ),
    "an output": (False, "for x in data:\n    value = model(x)"),
    "from a tensor that grows": (
        False,
        "for x in data:\n    value = model(x) @ bank\n    bank = cat([bank, x])",
    ),
    "from itself, but within one turn": (False, "for x in data:\n    value = first(x)\n    value = second(value)"),
    "read once the loop is over": (
        False,
        """
        for epoch in range(9):
            for x in data:
                value = model(x)
            print(epoch, value)
        """,
    ),
}
# Programs, and whether they read the entries of `models` as they go on.
USED = {
    "in the loop": (
        True,
        "for _ in range(9):\n    loss = sum(one(x) for one in models)\n    models.append(fit(loss))",
    ),
    "by a function": (
        True,
        """
        def predict(x):
            return sum(one(x) for one in models)
        for _ in range(9):
            models.append(fit(predict))
        """,
    ),
    "read once all is done": (False, "for _ in range(9):\n    models.append(fit())\nbest = max(models)"),
    "counted": (False, "for _ in range(9):\n    models.append(fit())\n    print(len(models), models)"),
    "by key": (False, "for name in names:\n    models[name] = fit()"),
    "read by a function whose own variable has the name": (
        False,
        """
        def run():
            models = []
            for _ in range(9):
                models.append(fit())
            return models
        def other(models):
            return sum(models)
        """,
    ),
}


def file_with(folder: Path, source: str) -> str:
    file = folder / "program.py"
    file.write_text(textwrap.dedent(source))
    return str(file)


@pytest.mark.parametrize(("is_so", "source"), CARRIED.values(), ids=CARRIED)
def test_value_that_goes_into_the_next_one_is_carried(is_so: bool, source: str, tmp_path: Path) -> None:
    assert is_carried(file_with(tmp_path, source), "<module>", "value") == is_so


def test_variable_of_a_function_is_looked_for_there(tmp_path: Path) -> None:
    source = """
        def main():
            for x in data:
                value = model(x)

        def other():
            for x in data:
                value = cat([value, x])
        """
    file = file_with(tmp_path, source)
    assert not is_carried(file, "main", "value")
    assert is_carried(file, "other", "value")


@pytest.mark.parametrize(("is_so", "source"), USED.values(), ids=USED)
def test_use_is_told_from_gathering(is_so: bool, source: str, tmp_path: Path) -> None:
    assert is_used_in_passing(file_with(tmp_path, source), "models") == is_so


def test_attribute_that_another_method_reads_is_used(tmp_path: Path) -> None:
    source = """
        class Cascade:
            def refine(self, x):
                for stage in self.stages:
                    x = stage(x)
            def add(self):
                self.stages.append(fit(self.refine))
        """
    assert is_used_in_passing(file_with(tmp_path, source), "self.stages")


def test_what_has_no_source_is_taken_for_carried_and_not_used(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none.py")
    assert is_carried(nowhere, "<module>", "value")
    assert not is_used_in_passing(nowhere, "models")
