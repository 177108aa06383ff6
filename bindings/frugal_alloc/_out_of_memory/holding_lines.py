"""Lines of the program that ask for memory and hold it, by what the library recorded of each site and block."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .._common.messages import format_bytes as size
from .._native.sites import site_stack, users_line
from .._program import source
from .._program.code_lines import CodeLine
from .._program.users_code import LIBRARYS, is_users, owner
from .scene import LEAST_BYTES, SETTING, Advice

if TYPE_CHECKING:
    from .._native import Library

PAGE_BYTES = 2 << 20
_MOST_CODE = 60
# Of libraries that are told; the others are smaller.
_MOST_INNER = 4


class HoldingLine(NamedTuple):
    """A line whose tensors live."""

    code_line: CodeLine
    bytes: int
    blocks: int


def shorten(code: str, limit: int = _MOST_CODE) -> str:
    return code if len(code) <= limit else code[: limit - 3] + "..."


def of_site(library: Library, number: int) -> CodeLine | None:
    """The user's line of a site: in backward, of the forward that made the node. None: no line is known."""
    if number <= 0:
        return None
    site = library.site(number)
    frame = users_line(library, site)
    if frame is None and not site.node:
        # A program that is installed as a package has no other.
        frame = next((inner for inner in site.frames if owner(inner.file) == LIBRARYS), None)
        return None if frame is None else CodeLine(frame.file, frame.line, frame.function, site.phase)
    if frame is None:
        return CodeLine(f"<{site.node}>", 0, "", site.phase, site.node)
    return CodeLine(frame.file, frame.line, frame.function, site.phase, site.node)


def by_size(library: Library, gpu: int) -> list[HoldingLine]:
    """The lines that hold memory, most first; one entry for each line, forward and backward apart."""
    return _summed(_users_lines(library, gpu))


def _users_lines(library: Library, gpu: int) -> Iterator[tuple[CodeLine, Any]]:
    """What sites hold, with the user's line of each."""
    for usage in library.site_usages():
        if usage.gpu == gpu and usage.live_bytes > 0 and (code_line := of_site(library, usage.site)) is not None:
            yield code_line, usage


def _summed(usages: Iterable[tuple[CodeLine, Any]]) -> list[HoldingLine]:
    lines: dict[tuple, HoldingLine] = {}
    for code_line, usage in usages:
        before = lines.get(key_of(code_line), HoldingLine(code_line, 0, 0))
        lines[key_of(code_line)] = before._replace(
            bytes=before.bytes + usage.live_bytes, blocks=before.blocks + usage.blocks
        )
    return sorted(lines.values(), key=lambda holder: -holder.bytes)


def key_of(code_line: CodeLine) -> tuple:
    """The same for lines that are told as one."""
    return code_line.file, code_line.line, bool(code_line.node)


def split(library: Library, gpu: int, holder: HoldingLine) -> list[HoldingLine]:
    """The lines of libraries in which a holder's memory was made, most first; empty where there are not several.

    Of each stack it is the innermost line that is neither the user's nor torch's, else the module of torch's that ran:
    in a library's model both tell which part of it is meant.
    """
    inner = []
    for code_line, usage in _users_lines(library, gpu):
        if key_of(code_line) != key_of(holder.code_line):
            continue
        if (frame := _telling(_inner_frames(library, usage.site))) is not None:
            place = CodeLine(frame.file, frame.line, frame.function, code_line.phase, code_line.node)
            inner.append((place, usage))
    lines = _summed(inner)
    return [_with_class(line) for line in lines[:_MOST_INNER]] if len(lines) > 1 else []


def _with_class(holder: HoldingLine) -> HoldingLine:
    """With the class of its method, which a library's model calls a module by."""
    file, line, function, *_ = holder.code_line
    tree = source.tree_of(file)
    classes = [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    around = [node for node in classes if node.lineno <= line <= (node.end_lineno or node.lineno)]
    name = max(around, key=lambda node: node.lineno).name + "." if around and "." not in function else ""
    return holder._replace(code_line=holder.code_line._replace(function=name + function))


def _inner_frames(library: Library, number: int) -> list[Any]:
    """What ran below the user's line, the innermost first; in a backward, when the forward made its node."""
    stack = site_stack(library, library.site(number))
    users = next((index for index, frame in enumerate(stack) if is_users(frame.file)), 0)
    return list(stack[:users])


def _telling(frames: list[Any]) -> Any:
    of_library = next((frame for frame in frames if not is_torchs(frame.file)), None)
    if of_library is not None:
        return of_library
    of_module = next((frame for frame in frames if frame.function.rpartition(".")[2] == "forward"), None)
    return of_module or next(iter(frames), None)


def is_torchs(file: str) -> bool:
    """Whether a file is PyTorch's own, or none."""
    import torch

    return file.startswith((os.path.join(os.path.dirname(torch.__file__), ""), "<"))


def find_pinning(library: Library, gpu: int) -> list[Advice]:
    """About the line whose blocks lie in the pages with the most free bytes that nothing else can use."""
    unusable: Counter[int] = Counter()
    blocks: Counter[int] = Counter()
    for segment in library.segments():
        if segment.gpu == gpu:
            _count_pages(segment, unusable, blocks)
    # Of each line: how many bytes its blocks have, and how many nobody can use beside them.
    lines: dict[tuple, tuple[CodeLine, int, int]] = {}
    for site, free in unusable.items():
        if (code_line := of_site(library, site)) is not None:
            key = (code_line.file, code_line.line)
            made, block_bytes, free_bytes = lines.get(key, (code_line, 0, 0))
            lines[key] = made, block_bytes + blocks[site], free_bytes + free
    if not lines:
        return []
    made, block_bytes, free_bytes = max(lines.values(), key=lambda line: line[2])
    text = (
        f"make the small tensors of {made.short} ({size(block_bytes)}) before the large ones, or as one tensor: they "
        f"are spread over pages of 2 MiB whose other {size(free_bytes)} nothing large can use"
    )
    return [Advice(text, made.file, made.line, free_bytes)]


def find_shared(library: Library, gpu: int) -> list[Advice]:
    """About the line that made most of what other processes were given, which no variable of this one frees alone."""
    if not library.shared:
        return []
    shared: Counter[int] = Counter()
    for segment in library.segments():
        for block in segment.blocks if segment.gpu == gpu else ():
            if block.state == "allocated" and block.address in library.shared:
                shared[block.site] += block.bytes
    if not shared:
        return []
    site, most = shared.most_common(1)[0]
    made = of_site(library, site)
    whose = f" that {made.short} made" if made is not None else ""
    text = (
        f"let go of the {size(most)}{whose} and shared with other processes, there and here: they stay as long as one "
        "of these has a tensor of them, or has yet to open it"
    )
    return [Advice(text, made and made.file, made and made.line, most, SETTING)] if most >= LEAST_BYTES else []


def _count_pages(segment: Any, unusable: Counter[int], blocks: Counter[int]) -> None:
    """Adds, by site, the free bytes of the pages that its blocks share, and the bytes of these blocks."""
    free: Counter[int] = Counter()
    owners: dict[int, Counter[int]] = {}
    for block in segment.blocks:
        for page in range(block.address // PAGE_BYTES, (block.address + block.bytes - 1) // PAGE_BYTES + 1):
            end = min(block.address + block.bytes, (page + 1) * PAGE_BYTES)
            size_in_page = end - max(block.address, page * PAGE_BYTES)
            if block.state == "free":
                free[page] += size_in_page
            else:
                owners.setdefault(page, Counter())[block.site] += size_in_page
    for page, sites in owners.items():
        if free[page]:
            for site, count in sites.items():
                unusable[site] += free[page]
                blocks[site] += count
