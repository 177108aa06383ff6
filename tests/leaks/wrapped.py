"""Programs of programs/ as most people write them: what the module did is done by a function, whose variables have
ended when the report at exit is written.

Imports, functions and classes stay the module's, and so do the variables that these use.
"""

from __future__ import annotations

import ast
import symtable

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_STAYING = (ast.Import, ast.ImportFrom, *_DEFINITIONS)


def in_function(source: str) -> str:
    """The program with a function that does what the module did. Comments stay with their lines."""
    body = ast.parse(source).body
    lines = source.splitlines()
    starts = [_first_line(statement) for statement in body]
    module, function = lines[: starts[0] - 1], []
    for statement, start, end in zip(body, starts, [*starts[1:], len(lines) + 1], strict=True):
        own = range(start, end)
        if isinstance(statement, _STAYING):
            module += [lines[number - 1] for number in own]
        else:
            # To indent what a text goes on with would change it.
            within = _lines_within_texts(statement)
            function += [lines[number - 1] if number in within else f"    {lines[number - 1]}" for number in own]
    shared = ", ".join(sorted(_used_by_definitions(source, body) & _set_by_others(body)))
    head = ["def whole_program():", *([f"    global {shared}"] if shared else [])]
    return "\n".join([*module, *head, *function, "whole_program()", ""])


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", ()))])


def _lines_within_texts(statement: ast.stmt) -> set[int]:
    texts = (node for node in ast.walk(statement) if isinstance(node, (ast.Constant, ast.JoinedStr)))
    return {number for text in texts for number in range(text.lineno + 1, (text.end_lineno or 0) + 1)}


def _used_by_definitions(source: str, body: list[ast.stmt]) -> set[str]:
    """The variables of the module that its functions and classes use."""
    names = {statement.name for statement in body if isinstance(statement, _DEFINITIONS)}
    waiting = [scope for scope in symtable.symtable(source, "", "exec").get_children() if scope.get_name() in names]
    used = set()
    while waiting:
        scope = waiting.pop()
        used |= {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global()}
        waiting += scope.get_children()
    return used


def _set_by_others(body: list[ast.stmt]) -> set[str]:
    """The variables that all other statements of the module give a value."""
    others = "\n".join(ast.unparse(statement) for statement in body if not isinstance(statement, _STAYING))
    symbols = symtable.symtable(others, "", "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
