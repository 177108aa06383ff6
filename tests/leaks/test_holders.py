"""Who holds a leak is told by the program's own name for it, with the way from there; or nobody is accused."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

SOURCES = [Path(__file__).with_name(f"held_in_{what}.py") for what in ("code", "data", "torch")]


def _expected() -> dict[str, tuple[str | None, str, str | None]]:
    """By program: who holds its leak, the way from there to the tensors, and the pattern where it is declared."""
    found = {}
    for function in (node for source in SOURCES for node in ast.parse(source.read_text()).body):
        for decorator in getattr(function, "decorator_list", []):
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "held_by":
                what, *rest = [argument.value for argument in decorator.args]
                named = {keyword.arg: keyword.value.value for keyword in decorator.keywords}
                through = rest[0] if rest else ""
                found[function.name] = what, through, rest[1] if len(rest) > 1 else named.get("pattern")
    return found


EXPECTED = _expected()


@pytest.fixture(scope="module")
def results(run_program) -> dict[str, Any]:
    return run_program("run_held_programs.py", *EXPECTED, memory="4GiB")


@pytest.mark.parametrize("name", EXPECTED)
def test_holder_is_told_by_its_name(name, results):
    result = results[name]
    assert result["verdicts"], result["text"]
    what, through, pattern = EXPECTED[name]
    first = result["verdicts"][0]
    told = [(holder["what"], holder["through"]) for holder in first["held_by"]]
    assert told == ([] if what is None else [(what, through)]), result["text"]
    assert pattern in (None, first["pattern"]), result["text"]


@pytest.mark.parametrize("name", [name for name, (what, _, _) in EXPECTED.items() if what is not None])
def test_holder_has_all_of_it(name, results):
    assert results[name]["verdicts"][0]["held_by"][0]["share"] == 1, results[name]["text"]


@pytest.mark.parametrize("name", [name for name, (what, _, _) in EXPECTED.items() if what is None])
def test_what_python_does_not_hold_is_said_to_be_not_known(name, results):
    assert "no Python variable was found" in " ".join(results[name]["text"].split())


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("attribute_of_a_class", "    seen: list[Tensor] = []"),
        ("attribute_of_an_object", "        self.mine: list[Tensor] = []"),
        ("librarys_cache_in_a_dictionary", "    conversations = {}"),
        ("default_argument", "def remember(tensor: Tensor, memory: list[Tensor] = []) -> None:"),
        ("states_of_a_librarys_metric", "    metric = installed_library.CatMetric()"),
    ],
)
def test_line_is_that_where_the_program_makes_it(name, line, results):
    holder = results[name]["verdicts"][0]["held_by"][0]
    source = next(source for source in SOURCES if f"\ndef {name}(" in source.read_text())
    assert holder["file"] == str(source)
    assert source.read_text().splitlines()[holder["line"] - 1].partition("  #")[0] == line
