"""No promise without a test: what docs/reliability.md names exists, and each promise names something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "reliability.md").read_text()
SOURCES = [
    path
    for folder in ("allocator", "bindings", "cuda", "simulated_gpu", "tests", "tools")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".cc", ".h", ".py"} and "__pycache__" not in path.parts
]
# Files and folders, and the names of tests, fixtures and functions.
PATH = re.compile(r"`((?:simulated_gpu|tests|tools)/[\w./]+)`")
NAME = re.compile(r"`(?!FRUGAL_)(\w+)`")


def rows(heading: str) -> list[list[str]]:
    """The cells of a section's first table, without its head."""
    section = TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


PROMISES = rows("Promises")


def test_there_are_promises() -> None:
    assert len(PROMISES) >= 15


@pytest.mark.parametrize("promise, proof, run", PROMISES, ids=[promise[:40] for promise, *_ in PROMISES])
def test_each_promise_names_tests_that_exist_and_which_of_them_are_run(promise: str, proof: str, run: str) -> None:
    assert run == "all" or "`--all`" in run
    paths, names = PATH.findall(proof), NAME.findall(proof)
    assert any(path.startswith("tests/") for path in paths) or names, f"no test for: {promise}"
    missing = [path for path in paths if not (ROOT / path).exists()]
    texts = [path.read_text() for path in SOURCES if path != Path(__file__)]
    missing += [name for name in names if not any(re.search(rf"\b{name}\b", text) for text in texts)]
    assert not missing


def test_variables_that_have_tests_do_more_are_read_by_them() -> None:
    variables = rows("More of it, and with other seeds")
    assert len(variables) >= 5
    tests = "".join(path.read_text() for path in SOURCES if "tests" in path.relative_to(ROOT).parts)
    for name in [cells[0].strip("`") for cells in variables] + ["FRUGAL_TEST_SEED"]:
        assert f'"{name}"' in tests
