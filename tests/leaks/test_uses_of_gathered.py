"""What a program gathers and reads as it goes on is told from what it gathers only."""

from __future__ import annotations

import textwrap

import pytest
from frugal_alloc._tracking.uses import is_used_in_passing

USED = {
    "in the loop": """
        for _ in range(9):
            loss = target - sum(one(x) for one in models)
            models.append(fit(loss))
        """,
    "by a function": """
        def predict(x):
            return sum(one(x) for one in models)
        for _ in range(9):
            models.append(fit(predict))
        """,
}
GATHERED = {
    "read once all is done": """
        for _ in range(9):
            models.append(fit())
        best = max(models)
        """,
    "counted": """
        for _ in range(9):
            models.append(fit())
            print(len(models), models)
        """,
    "by key": """
        for name in names:
            models[name] = fit()
        """,
    "read by a function whose own variable has the name": """
        def run():
            models = []
            for _ in range(9):
                models.append(fit())
            return models
        def other(models):
            return sum(models)
        """,
}


@pytest.mark.parametrize("source", USED.values(), ids=USED)
def test_use_is_seen(source, tmp_path) -> None:
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(source))
    assert is_used_in_passing(str(file), "models")


@pytest.mark.parametrize("source", GATHERED.values(), ids=GATHERED)
def test_gathering_is_no_use(source, tmp_path) -> None:
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(source))
    assert not is_used_in_passing(str(file), "models")


def test_attribute_that_another_method_reads_is_used(tmp_path) -> None:
    file = tmp_path / "program.py"
    source = """
        class Cascade:
            def refine(self, x):
                for stage in self.stages:
                    x = stage(x)
            def add(self):
                self.stages.append(fit(self.refine))
        """
    file.write_text(textwrap.dedent(source))
    assert is_used_in_passing(str(file), "self.stages")
    assert not is_used_in_passing(str(tmp_path / "none.py"), "self.stages")
