"""The public functions, the hooks and the report, on the simulated GPU: each claim is a function of checks.py."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("checks.py")
HELPERS = ("tensor", "raising", "without_collector", "tracker", "training", "data", "main")
CHECKS = [
    node.name
    for node in ast.parse(SOURCE.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name not in HELPERS
]


@pytest.fixture(scope="module")
def results(run_program) -> dict[str, str]:
    return run_program(SOURCE.name, *CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_check(name, results):
    assert results[name] == ""
