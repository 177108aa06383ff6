"""The public functions, the hooks and the report, on the simulated GPU: each claim is a function of checks_of_*.py."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = [Path(__file__).with_name(f"checks_of_{what}.py") for what in ("calls", "hooks", "reports")]
CHECKS = [
    node.name for source in SOURCES for node in ast.parse(source.read_text()).body if isinstance(node, ast.FunctionDef)
]


@pytest.fixture(scope="module")
def results(run_program) -> dict[str, str]:
    return run_program("run_checks.py", *CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_check(name, results):
    assert results[name] == ""
