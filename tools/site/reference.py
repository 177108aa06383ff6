"""The pages of the reference: the package's docstrings, the command's own help and the headers."""

from __future__ import annotations

import ast
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "frugal_alloc"
CPP = ROOT / "bindings" / "include" / "frugal_alloc" / "torch.h"
C = ROOT / "bindings" / "c_api" / "c_api.h"
_FIRST = "enable"
# The classes of what public functions return.
_GIVEN = (
    *("_report.report.Report", "_report.report.Verdict", "_tracking.phases.Phase"),
    *("_tracking.expectations.Expectation", "_tracking.no_leaks.NoLeaks", "_tracking.track.Region"),
)
_MODULE = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"


def public_names() -> list[str]:
    """Of the package: enable(), then all others in the order in which it defines them."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    nodes = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AnnAssign | ast.Assign)]
    places = {node.name if isinstance(node, ast.FunctionDef) else _variable(node): node for node in nodes}
    listed = ast.literal_eval(places.pop("__all__").value)
    defined = [name for name in places if name in listed]
    functions = [name for name in defined if isinstance(places[name], ast.FunctionDef) and name != _FIRST]
    return [_FIRST, *functions, *(name for name in listed if name not in (_FIRST, *functions))]


def _variable(node: ast.AnnAssign | ast.Assign) -> str:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return getattr(target, "id", "")


def integrations() -> list[str]:
    return sorted(path.stem for path in (PACKAGE / "integrations").glob("[a-z]*.py"))


def commands() -> list[str]:
    return re.findall(r"^    ([a-z-]+)(?=  |$)", _help(), re.MULTILINE)


def python_page() -> str:
    names = "\n\n".join(f"::: frugal_alloc.{name}" for name in public_names())
    given = "\n\n".join(f"::: frugal_alloc.{path}" for path in _GIVEN)
    return f"""# The Python package

{names}

## What the functions give

Objects of these classes come from the functions above; a program makes none itself.

{given}
"""


def integrations_page() -> str:
    modules = "\n".join(
        f"## {name}\n\n::: frugal_alloc.integrations.{name}\n{_MODULE}      heading_level: 3\n"
        for name in integrations()
    )
    return f"""# Integrations

Callbacks for training loops, and figures for dashboards.
[Where training already is](../reports.md#where-training-already-is) says what each tells frugal_alloc.
Each module is imported by its name, and needs its library.

{modules}
## pytest

::: frugal_alloc.pytest_plugin
{_MODULE}      members: false

[Tests that must not leak](../reports.md#tests-that-must-not-leak) has an example.
"""


def command_line_page() -> str:
    names = commands()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        parts = [
            f"## {name}\n\n```text\n{text}\n```\n" for name, text in zip(names, pool.map(_help, names), strict=True)
        ]
    return f"# The command line\n\n```text\n{_help()}\n```\n\n" + "\n".join(parts)


def _help(*command: str) -> str:
    """What the command prints for --help."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "COLUMNS": "100", "NO_COLOR": "1"}
    line = [sys.executable, "-m", "frugal_alloc", *command, "--help"]
    return subprocess.run(line, env=environment, check=True, capture_output=True, text=True).stdout.rstrip()


def cpp_page() -> str:
    return _header("C++", CPP, "[For C++ programs](../cpp.md) says how to build with it.")


def c_page() -> str:
    told = "The Python package and [the C++ header](cpp.md) call it. It may change with any version."
    return _header("C functions", C, told)


def _header(title: str, path: pathlib.Path, told: str) -> str:
    text = path.read_text(encoding="utf-8").rstrip()
    return f"# {title}\n\nThis is `{path.relative_to(ROOT)}`. {told}\n\n```cpp\n{text}\n```\n"


#: By name below docs/, what makes its text.
PAGES = {
    "reference/python.md": python_page,
    "reference/integrations.md": integrations_page,
    "reference/command_line.md": command_line_page,
    "reference/cpp.md": cpp_page,
    "reference/c.md": c_page,
}
