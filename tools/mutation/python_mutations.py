"""Small wrong changes of Python source, one at a time: the same kinds as `cpp_mutations` makes of C++.

A file that has one is written into a copy of the package, and tests are run with that copy before the checkout's.
Nothing is compiled, so each mutant is a file of its own.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence

BOUNDARIES = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
BOUNDARIES |= {ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is"}
OPPOSITES = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*"}
CALLEES = {"max": "min", "min": "max", "any": "all", "all": "any"}
#: The package that mutants are of.
PACKAGE = pathlib.PurePosixPath("bindings/frugal_alloc")
#: A mutant may wait for ever, or take all memory.
MOST_SECONDS = 300


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of a file. `key` names it in a list that outlives the moving of lines."""

    file: str
    line: int
    key: str
    #: The whole file, wrong.
    text: str


class _Finder(ast.NodeVisitor):
    """The changes of one file: where, in which function, and to what."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._functions: list[str] = []
        self.changes: list[tuple[ast.AST, str, str]] = []

    def _add(self, node: ast.AST, changed: str) -> None:
        if self._functions:
            self.changes.append((node, ".".join(self._functions), changed))

    def _text(self, node: ast.AST) -> str:
        return ast.get_source_segment(self._source, node) or ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._functions.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._functions.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._functions.append(node.name)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                self.visit(statement)
        self._functions.pop()

    def _at_condition(self, node: ast.If | ast.IfExp | ast.While) -> None:
        self._add(node.test, "False")
        if not isinstance(node, ast.While):
            self._add(node.test, "True")
        self.generic_visit(node)

    visit_If = visit_IfExp = visit_While = _at_condition

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and type(node.ops[0]) in BOUNDARIES:
            left, right = self._text(node.left), self._text(node.comparators[0])
            self._add(node, f"{left} {BOUNDARIES[type(node.ops[0])]} {right}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._add(node, self._text(node.values[0]))
        self._add(node, self._text(node.values[-1]))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPPOSITES:
            self._add(node, f"{self._text(node.left)} {OPPOSITES[type(node.op)]} {self._text(node.right)}")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, self._text(node.operand))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in CALLEES:
            self._add(node.func, CALLEES[node.func.id])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, str(node.value + 1))

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._add(node, "pass")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Its parts have no places of their own before Python 3.12."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """What an error says is no decision."""


def find(file: str, source: str) -> Iterator[Mutant]:
    """The mutants of a file, in the order of their places."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    whole = source.encode()
    seen: collections.Counter[str] = collections.Counter()
    for node, function, changed in finder.changes:
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        original = " ".join(whole[start:end].decode().split())
        key = f"{file} | {function} | {original}  ->  {' '.join(changed.split())}"
        seen[key] += 1
        if seen[key] > 1:
            key = f"{key} | {seen[key]}"
        # In brackets, a change that crosses lines is still one expression.
        inserted = changed if isinstance(node, ast.Expr | ast.Name) else f"({changed})"
        text = (whole[:start] + inserted.encode() + whole[end:]).decode()
        yield Mutant(file, node.lineno, key, text)


class Copy:
    """A copy of the package, in which one file at a time is wrong."""

    def __init__(self, root: pathlib.Path, folder: pathlib.Path) -> None:
        """
        Args:
            root: the checkout, built.
            folder: where the copy goes; what is there is replaced.
        """
        self._root, self._folder = root, folder
        shutil.rmtree(folder, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__", "_lib")
        shutil.copytree(root / PACKAGE, folder / PACKAGE, ignore=ignored)
        # What is built, and what the package finds beside itself in a checkout.
        for name in (PACKAGE / "_lib", "bench"):
            (folder / name).symlink_to(root / name)

    def fails(self, mutant: Mutant | None, tests: Sequence[str]) -> bool:
        """Whether one of these tests does, with the mutant or with none."""
        place = self._folder / mutant.file if mutant else None
        before = place.read_bytes() if place else b""
        try:
            if place and mutant:
                place.write_text(mutant.text)
            return self._run(tests) != 0
        finally:
            if place:
                place.write_bytes(before)

    def _run(self, tests: Sequence[str]) -> int:
        python = self._root / ".venv" / "bin" / "python"
        command = [python, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": str(self._folder / PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        running = subprocess.Popen(
            command,
            cwd=self._root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return running.wait(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            return 1
        finally:
            # Tests have children of their own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
