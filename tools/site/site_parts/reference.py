"""The pages of the reference, made from docstrings, headers, the command's parsers and the settings' table."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from . import PACKAGE, command_line, headers, settings

#: By page, what is said of it on the reference's first page, and what makes its text.
PAGES: dict[str, tuple[str, Callable[[], str]]] = {}


def public_names() -> list[str]:
    """Of the package, in the order in which it defines them."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    listed = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    )
    defined = [
        node.name if isinstance(node, ast.FunctionDef) else getattr(node.target, "id", "")
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AnnAssign))
    ]
    return [name for name in defined if name in listed] + [name for name in listed if name not in defined]


def integrations() -> list[str]:
    return sorted(path.stem for path in (PACKAGE / "integrations").glob("[a-z]*.py"))


def python_page() -> str:
    names = "\n\n".join(f"::: frugal_alloc.{name}" for name in public_names())
    given = "\n\n".join(f"::: frugal_alloc.{path}" for path in GIVEN)
    return f"""# The Python package

::: frugal_alloc
    options:
      members: false
      show_root_heading: false
      show_root_toc_entry: false

{names}

## What the functions give

Objects of these classes come from the functions above; a program makes none itself.

{given}
"""


#: The classes of what public functions return.
GIVEN = (
    "_report.report.Report",
    "_report.report.Verdict",
    "_tracking.phases.Phase",
    "_tracking.expectations.Expectation",
    "_tracking.no_leaks.NoLeaks",
    "_tracking.track.Region",
)


def integrations_page() -> str:
    modules = "\n\n".join(
        f"## {name}\n\n::: frugal_alloc.integrations.{name}\n    options:\n      show_root_heading: false\n"
        "      show_root_toc_entry: false\n      heading_level: 3\n"
        for name in integrations()
    )
    return f"""# Integrations

Callbacks for training loops, and figures for dashboards.
[Where training already is](../reports.md#where-training-already-is) says what each tells frugal_alloc.
Each module is imported by its name, and needs its library.

{modules}

## pytest

::: frugal_alloc.pytest_plugin
    options:
      members: false
      show_root_heading: false
      show_root_toc_entry: false

[Tests that must not leak](../reports.md#tests-that-must-not-leak) has an example.
"""


def first_page(text: str) -> str:
    """The committed page with what the site has beside it."""
    rows = "\n".join(
        f"| [{title(page())}]({name.removeprefix('reference/')}) | {told} |" for name, (told, page) in PAGES.items()
    )
    return f"{text.rstrip()}\n\n## On this site\n\n| page | what it has |\n| --- | --- |\n{rows}\n"


def title(text: str) -> str:
    return re.search("^# (.+)$", text, re.MULTILINE)[1]


PAGES |= {
    "reference/python.md": ("every public function, from its docstring", python_page),
    "reference/integrations.md": (
        "callbacks of trainers, gauges of dashboards, the plugin of pytest",
        integrations_page,
    ),
    "reference/command_line.md": ("every subcommand of `frugal-alloc` and its options", command_line.page),
    "reference/settings.md": ("every key of `FRUGAL_ALLOC_CONF`, with its values", settings.page),
    "reference/cpp.md": ("the header `frugal_alloc/torch.h`", headers.cpp_page),
    "reference/c.md": ("the library's C functions", headers.c_page),
}
