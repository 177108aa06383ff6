"""What one of the user's lines holds, by the lines of libraries that it called: a whole step may be one such call."""

from __future__ import annotations

import ast
import os
from typing import Any

from .._program import source, users_code
from .._program.code_lines import CodeLine
from .._tracking import users_lines
from .holding_lines import HoldingLine, key_of, of_site

# Those that are told; the others are smaller.
MOST_LINES = 4


def split(library: Any, gpu: int, holder: HoldingLine) -> list[HoldingLine]:
    """The lines of libraries in which a holder's memory was made, most first; empty where there are not several.

    Of each stack it is the innermost line that is neither the user's nor torch's, else the module of torch's that ran:
    in a library's model both tell which part of it is meant.
    """
    found: dict[tuple, HoldingLine] = {}
    for usage in library.site_usages():
        if usage.gpu != gpu or usage.live_bytes <= 0:
            continue
        code_line = of_site(library, usage.site)
        if code_line is None or key_of(code_line) != key_of(holder.code_line):
            continue
        frame = _telling(_inner_frames(library, usage.site))
        if frame is None:
            continue
        inner = CodeLine(frame.file, frame.line, frame.function, code_line.phase, code_line.node)
        before = found.get(key_of(inner), HoldingLine(inner, 0, 0))
        found[key_of(inner)] = HoldingLine(inner, before.bytes + usage.live_bytes, before.blocks + usage.blocks)
    largest = sorted(found.values(), key=lambda one: -one.bytes) if len(found) > 1 else []
    return [_with_class(one) for one in largest[:MOST_LINES]]


def _with_class(holder: HoldingLine) -> HoldingLine:
    """With the class of its method, which a library's model calls a module by."""
    file, line, function, *_ = holder.code_line
    tree = source.tree_of(file)
    classes = [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    around = [node for node in classes if node.lineno <= line <= (node.end_lineno or node.lineno)]
    name = max(around, key=lambda node: node.lineno).name + "." if around and "." not in function else ""
    return holder._replace(code_line=holder.code_line._replace(function=name + function))


def _inner_frames(library: Any, number: int) -> list[Any]:
    """What ran below the user's line, the innermost first; in a backward, when the forward made its node."""
    stack = users_lines.stack_of(library, library.site(number))
    users = next((index for index, frame in enumerate(stack) if users_code.is_users(frame.file)), 0)
    return list(stack[:users])


def _telling(frames: list[Any]) -> Any:
    of_library = next((frame for frame in frames if not _is_torchs(frame.file)), None)
    if of_library is not None:
        return of_library
    of_module = next((frame for frame in frames if frame.function.rpartition(".")[2] == "forward"), None)
    return of_module or next(iter(frames), None)


def _is_torchs(file: str) -> bool:
    import torch

    return file.startswith((os.path.join(os.path.dirname(torch.__file__), ""), "<"))
