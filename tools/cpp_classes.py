"""The public functions of each C++ class that are its own, as its header declares them.

Left out are what the class has to have (constructors, destructors, operators, overrides, what is deleted or defaulted)
and what others fill in: pure virtual functions, so a port has none, and test fixtures. What only names a part of the
class, `Clock& clock() { return clock_; }`, is left out, too. Overloads count once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Whatever looks like code without being any.
_NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL | re.MULTILINE,
)
_ATTRIBUTE = r"(?:\[\[[^\]]*\]\]|ABSL_\w+(?:\([^()]*\))?|C10_\w+)"
_CLASS = re.compile(rf"(?<!enum )\b(class|struct)\s+(?:{_ATTRIBUTE}\s+)*(\w+)(?:\s+final)?\s*(:(?!:)[^;{{}}()]*)?\{{")
_ACCESS = re.compile(r"\b(public|private|protected)\s*:(?!:)")
# "Part& part() { return part_; }", const or not.
_NAMES_A_PART = re.compile(r"[\w:]+& (\w+)\(\) (?:const )?\{ return \*?\1_; \}")
_NO_FUNCTION = re.compile(r"\s*(?:using|friend|typedef|static_assert|class|struct|union|enum)\b")
_PURE_OR_GIVEN = re.compile(r"\b(?:override|final)\b|=\s*(?:0|delete|default)\s*$")
_SPECIFIER = re.compile(rf"\b(?:alignas|decltype|explicit|noexcept)\s*\((?:[^()]|\([^()]*\))*\)|{_ATTRIBUTE}")
# Not of a pointer to a function, whose name follows a star.
_FUNCTION = re.compile(r"(~?\w+)\s*\((?!\s*\*)")


def public_functions(header: str) -> dict[str, set[str]]:
    """By class of the header's text, nested ones too: the names of its own public functions."""
    text = _NAMES_A_PART.sub("", _NO_CODE.sub("", header))
    return {
        head[2]: set(_own(head, text[head.end() : _end_of_block(text, head.end())]))
        for head in _CLASS.finditer(text)
        if "testing::" not in (head[3] or "")
    }


def _own(head: re.Match, body: str) -> Iterator[str]:
    sections = _ACCESS.split(_without_blocks(body))
    accesses = ["public" if head[1] == "struct" else "private", *sections[1::2]]
    for access, section in zip(accesses, sections[::2], strict=True):
        for declaration in section.split(";") if access == "public" else ():
            name = _function(declaration)
            if name not in (None, head[2], f"~{head[2]}"):
                yield name


def _function(declaration: str) -> str | None:
    """The name of the function that it declares; None: it declares something else, or nothing that counts."""
    bare = _without_template_arguments(_SPECIFIER.sub("", declaration)).strip()
    bare = re.sub(r"^(?:template\s+)+", "", bare)
    if _NO_FUNCTION.match(bare) or _PURE_OR_GIVEN.search(bare) or re.search(r"\boperator\b", bare):
        return None
    found = _FUNCTION.search(bare)
    # Behind an equals sign stands a value.
    return found[1] if found and "=" not in bare[: found.start()] else None


def _end_of_block(text: str, begin: int) -> int:
    """Where the brace closes that was opened before `begin`."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return len(text)


def _without_blocks(body: str) -> str:
    """A semicolon for each block in braces: what stands before and after are declarations of their own."""
    left, at = "", 0
    while (opened := body.find("{", at)) >= 0:
        left += body[at:opened] + ";"
        at = _end_of_block(body, opened + 1) + 1
    return left + body[at:]


def _without_template_arguments(declaration: str) -> str:
    text, before = declaration, ""
    while text != before:
        text, before = re.sub(r"<[^<>;]*>", "", text), text
    return text
