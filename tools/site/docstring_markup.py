"""Has the reference show docstrings as they are meant: references as links, and comments of variables as texts."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|data):`~?([\w.]+)`")
_CODE = re.compile(r"``(.+?)``")
_PACKAGE = "frugal_alloc"


class DocstringMarkup(griffe.Extension):
    """Griffe finds it by its class."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        _mend(pkg)


def _mend(obj: griffe.Object) -> None:
    if obj.is_attribute and obj.docstring is None:
        obj.docstring = _comment_above(obj)
    if obj.docstring is not None:
        obj.docstring.value = _markdown(obj)
    for member in obj.members.values():
        if not member.is_alias:
            _mend(member)


def _comment_above(attribute: griffe.Object) -> griffe.Docstring | None:
    """Lines of `#:` before the variable."""
    lines: list[str] = []
    above = (attribute.lineno or 1) - 2
    while above >= 0 and (line := attribute.lines_collection[attribute.filepath][above].strip()).startswith("#:"):
        lines.insert(0, line.removeprefix("#:").strip())
        above -= 1
    return griffe.Docstring(" ".join(lines), parent=attribute) if lines else None


def _markdown(obj: griffe.Object) -> str:
    def link(found: re.Match[str]) -> str:
        name = found[1].removeprefix(f"{_PACKAGE}.")
        # A class names functions of its own.
        scope = obj if obj.is_class else obj.parent
        owner = scope.path if scope is not None and scope.is_class and name in scope.members else _PACKAGE
        return f"[`{name}`][{owner}.{name}]"

    return _CODE.sub(r"`\1`", _ROLE.sub(link, obj.docstring.value))
