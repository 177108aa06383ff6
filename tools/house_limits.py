"""Refuses files beyond the limits that neither ruff nor clang-tidy has.

    tools/house_limits.py FILE...

These are lines of files and of Python functions, public functions of C++ classes, and modules of tests with one name.
"""

from __future__ import annotations

import ast
import collections
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator

import tree_sitter
import tree_sitter_cpp

MOST_LINES = {".h": 300, ".cc": 450, ".py": 450, "": 450}
MOST_FUNCTION_LINES = 50  # Python's; .clang-tidy has C++'s
MOST_PUBLIC_FUNCTIONS = 15  # C++'s; pyproject.toml has Python's
CPP = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))
# Macros, which are no C++ to a parser; and what only names a part: "Clock& clock() { return clock_; }", const or not.
NOT_COUNTED = re.compile(
    r"\b(?:ABSL|C10|FRUGAL)_\w+(?:\([^()\n]*\))?|(?:const )?[\w:]+& (\w+)\(\) (?:const )?\{ return \*?\1_; \}"
)
AROUND_MEMBERS = ("template_declaration", "preproc_if", "preproc_ifdef", "preproc_else")
FILLED_IN_ELSEWHERE = ("pure_virtual_clause", "delete_method_clause", "default_method_clause", "virtual_specifier")


def long_functions(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                yield node.lineno, f"{node.name} has {lines} lines, limit {MOST_FUNCTION_LINES}"


def wide_classes(header: str) -> Iterator[tuple[int, str]]:
    todo = [CPP.parse(NOT_COUNTED.sub("", header).encode()).root_node]
    while todo:
        node = todo.pop()
        todo += node.children
        if node.type in ("class_specifier", "struct_specifier") and node.child_by_field_name("body"):
            name, functions = public_functions(node)
            if len(functions) > MOST_PUBLIC_FUNCTIONS:
                line = node.start_point[0] + 1
                yield line, f"{name} has {len(functions)} public functions, limit {MOST_PUBLIC_FUNCTIONS}"


def public_functions(definition: tree_sitter.Node) -> tuple[str, set[str]]:
    """A class's name, and the names of its own functions; not its constructors, nor what others fill in."""
    name = definition.child_by_field_name("name")
    access = b"public" if definition.type == "struct_specifier" else b"private"
    functions = set()
    for member in members(definition.child_by_field_name("body").children):
        if member.type == "access_specifier":
            access = member.text
        elif access == b"public":
            functions.add(function_name(member))
    class_name = name.text.decode() if name else "(unnamed)"
    return class_name, functions - {None, class_name}


def function_name(member: tree_sitter.Node) -> str | None:
    """Of the function that it declares; None: it declares something else, or what others fill in."""
    function = member.child_by_field_name("declarator")
    while function and function.type in ("pointer_declarator", "reference_declarator"):
        function = function.named_children[-1]
    if function is None or function.type != "function_declarator" or member.child_by_field_name("default_value"):
        return None
    if any(part.type in FILLED_IN_ELSEWHERE for part in [*member.children, *function.children]):
        return None
    name = function.child_by_field_name("declarator")
    return name.text.decode() if name.type in ("identifier", "field_identifier") else None


def members(nodes: Iterable[tree_sitter.Node]) -> Iterator[tree_sitter.Node]:
    for node in nodes:
        if node.type in AROUND_MEMBERS:
            yield from members(node.children)
        else:
            yield node


def same_names(files: list[pathlib.Path]) -> list[str]:
    """pytest imports the tests' modules by their bare names, so of two with one name it may take the wrong one."""
    named = collections.defaultdict(list)
    for path in files:
        if path.parts[0] == "tests" and path.suffix == ".py" and path.stem != "conftest":
            named[path.stem].append(str(path))
    return [f"one name for pytest: {', '.join(same)}; rename all but one" for same in named.values() if len(same) > 1]


def main(*names: str) -> int:
    files = [pathlib.Path(name) for name in names]
    found = same_names(files)
    for path in files:
        text = path.read_text()
        lines = len(text.splitlines())
        if lines > MOST_LINES[path.suffix]:
            found.append(f"{path}: {lines} lines, limit {MOST_LINES[path.suffix]}")
        check = {".h": wide_classes, ".cc": lambda _: ()}.get(path.suffix, long_functions)
        found += [f"{path}:{line}: {complaint}" for line, complaint in check(text)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
