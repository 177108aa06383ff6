"""The reference of the C++ and C headers: each declaration with the comment above it."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import textwrap
from collections.abc import Iterable, Iterator

import tree_sitter
import tree_sitter_cpp

from . import ROOT

CPP = ROOT / "bindings" / "include" / "frugal_alloc" / "torch.h"
C = ROOT / "bindings" / "c_api" / "c_api.h"
_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))
# "--- Leaks: memory of which a program keeps more after every epoch."
_SECTION = re.compile(r"---\s+([^.:]+)[.:]\s*(.*)", re.DOTALL)
_TYPES = ("class_specifier", "struct_specifier", "enum_specifier")
_CONTAINERS = ("declaration_list", "linkage_specification", "preproc_ifdef", "preproc_if")


@dataclasses.dataclass
class Section:
    """What a comment that begins with --- announces; the first has no title."""

    title: str = ""
    text: str = ""
    entries: list[Entry] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Entry:
    """Declarations that stand together, with the comment above the first."""

    names: list[str]
    declarations: list[str]
    text: str


def sections(header: pathlib.Path) -> list[Section]:
    tree = _PARSER.parse(header.read_bytes())
    body = _public(tree.root_node) if header == CPP else _flat(tree.root_node.children)
    found = [Section()]
    for comment, nodes in _groups(list(body)):
        announced = _SECTION.match(comment)
        if announced:
            text = announced[2].strip()
            found.append(Section(announced[1].strip(), text[:1].upper() + text[1:]))
            comment = ""
        names = [name for node in nodes if (name := _name(node))]
        if names:
            declarations = [_declaration(node) for node in nodes if _name(node)]
            found[-1].entries.append(Entry(names, declarations, comment))
    return found


def introduction(header: pathlib.Path) -> str:
    """The comment that begins the header."""
    comment, _ = next(_groups(list(_PARSER.parse(header.read_bytes()).root_node.children)))
    return comment


def cpp_page() -> str:
    return f"""# C++

`#include <frugal_alloc/torch.h>`. [For C++ programs](../cpp.md) says how to build with it.

{_markdown(introduction(CPP))}

{_pages(sections(CPP))}"""


def c_page() -> str:
    return f"""# C functions

`bindings/c_api/c_api.h` is the library's own interface, which the Python package and the C++ header call. It may change
with any version: programs in C++ have [a header](cpp.md) that does not.

{_markdown(introduction(C))}

{_pages(sections(C))}"""


def _pages(found: Iterable[Section]) -> str:
    parts = []
    for section in found:
        parts += [f"## {section.title}\n\n{_markdown(section.text)}\n"] if section.title else []
        parts += [_entry(entry, "###" if section.title else "##") for entry in section.entries]
    return "\n".join(parts)


def _entry(entry: Entry, level: str) -> str:
    first, *others = dict.fromkeys(entry.names)
    anchors = "".join(f'<span id="{name}"></span>' for name in others)
    title = ", ".join(f"`{name}`" for name in dict.fromkeys(entry.names))
    code = "\n".join(entry.declarations)
    return f"{level} {title} {{ #{first} }}\n\n{anchors}\n\n```cpp\n{code}\n```\n\n{_markdown(entry.text)}\n"


def _public(root: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """What the namespace frugal_alloc declares."""
    for node in _flat(root.children):
        if node.type == "namespace_definition" and _text(node.child_by_field_name("name")) == "frugal_alloc":
            yield from node.child_by_field_name("body").children


def _flat(nodes: Iterable[tree_sitter.Node]) -> Iterator[tree_sitter.Node]:
    for node in nodes:
        if node.type in _CONTAINERS:
            yield from _flat(node.children)
        else:
            yield node


def _groups(nodes: list[tree_sitter.Node]) -> Iterator[tuple[str, list[tree_sitter.Node]]]:
    """Comments that stand alone, each with the declarations below it up to an empty line or the next such comment."""
    comment, group, end = "", [], -2
    for node in nodes:
        begins = node.start_point[0] > end + 1 or (node.type == "comment" and group and node.start_point[0] != end)
        if begins and (comment or group):
            yield _plain(comment), group
            comment, group = "", []
        if node.type == "comment" and not group:
            comment += _text(node) + "\n"
        elif node.type != ";":
            group.append(node)
        end = node.end_point[0]
    if comment or group:
        yield _plain(comment), group


def _name(node: tree_sitter.Node) -> str:
    """Of what a program can use; "" for all else, such as a structure that is only announced."""
    if node.type in _TYPES:
        return _text(node.child_by_field_name("name")) if node.child_by_field_name("body") else ""
    if node.type not in ("declaration", "function_definition"):
        return ""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    return _text(declarator.child_by_field_name("declarator")) if declarator is not None else ""


def _declaration(node: tree_sitter.Node) -> str:
    """As a reader of the interface needs it: without bodies of functions and without private members."""
    text = node.text
    hidden = [(start, end, b";") for start, end in _bodies(node)]
    hidden += [(private, node.child_by_field_name("body").end_byte - 1, b"") for private in _private(node)]
    for start, end, left in sorted(hidden, reverse=True):
        if not any(first < start and end < last for first, last, _ in hidden):
            start, end = start - node.start_byte, end - node.start_byte
            text = text[:start].rstrip() + (left or b"\n") + text[end:].removeprefix(left or b"\n")
    declared = text.decode() if node.type not in _TYPES else f"{text.decode()};"
    return re.sub(r"\binline ", "", declared)


def _bodies(node: tree_sitter.Node) -> Iterator[tuple[int, int]]:
    """Of functions; with a constructor's, what it begins its members with."""
    if node.type == "function_definition":
        hidden = [one for one in node.children if one.type in ("field_initializer_list", "compound_statement")]
        if hidden:
            yield hidden[0].start_byte, hidden[-1].end_byte
        return
    for child in node.children:
        yield from _bodies(child)


def _private(node: tree_sitter.Node) -> Iterator[int]:
    body = node.child_by_field_name("body") if node.type in _TYPES else None
    for child in body.children if body is not None else ():
        if child.type == "access_specifier" and _text(child) == "private":
            yield child.start_byte


def _text(node: tree_sitter.Node | None) -> str:
    return node.text.decode() if node is not None else ""


def _plain(comment: str) -> str:
    """A comment's words, with the indentation that is left when its own is gone."""
    comment = comment.strip()
    if comment.startswith("/*"):
        first, _, rest = comment.removeprefix("/*").removesuffix("*/").strip().partition("\n")
        return f"{first}\n{textwrap.dedent(rest)}".strip()
    return re.sub(r"^// ?", "", comment, flags=re.MULTILINE).strip()


def _markdown(text: str) -> str:
    """What a comment says, with its names as code and its indented examples as blocks."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.startswith("  "):
            paragraphs.append(f"```cpp\n{textwrap.dedent(paragraph)}\n```")
        else:
            paragraphs.append(_with_code(paragraph))
    return "\n\n".join(paragraphs)


_CODE = re.compile(
    r"(`[^`]+`|\w+_\w+\([^()\n]*\)|[\w:]*\w\(\)|\b[A-Z]+(?:_[A-Z]+)+(?:=\w+)?\b|\b\w+(?:/\w+)+\.\w+"
    r'|\b[a-z]\w*(?:(?:_|::|/)\w+)+(?:<\w+>)?(?:\.\w+)*\b|"[^"\n]*"|\b\w+_\*|\b\w+:(?:on|off)\b|//:\w+)'
)


def _with_code(paragraph: str) -> str:
    parts = _CODE.split(paragraph)
    return "".join(
        f"`{part.strip('`')}`" if place % 2 else re.sub(r"([<>*_\[\]{}#])", r"\\\1", part)
        for place, part in enumerate(parts)
    )
