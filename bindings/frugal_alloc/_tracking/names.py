"""By which name a program reaches what holds memory, and how the way goes on within a library."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from .._program import source
from . import live_tensors, raw_objects
from .links import NAMED, Link, links
from .reach import Reach


class Name(NamedTuple):
    """Of a holder, in words, and where it is assigned if that can be known."""

    kind: str  # of the link that names it: "variable", "attribute", "closure" ...; "exception", "hooks": the way's
    what: str  # "list 'losses'", "list 'history' of Trainer"
    name: str  # as the program may write it: "losses", "self.history", "states['hidden']"
    holder: str  # the class or function that has it: "list", "Trainer"
    file: str | None
    line: int | None
    through: str = ""  # "parameter 'weight' of Linear": the way from there to the tensors, where it has names
    collection: str = ""  # the class of what gathers: "list", "dict"; "tensor"
    is_librarys: bool = False  # the program's own code has no name for it
    function: str = ""  # that it is a variable of, or "<module>"
    is_through_context: bool = False  # the ctx of an autograd.Function has it, which is in the graph of a result


def name_of(reach: Reach, number: int, example: int) -> Name | None:
    """The name of an object that gathers tensors.

    It is the nearest one that the program's own code has for it; what is between that and the tensors is told besides.
    None: the program has no name for it, nor has a library.

    Args:
        reach: The walk that has reached it.
        number: The object.
        example: The number of a tensor below it.
    """
    path = reach.path_to(example)
    gatherer = path.index(number)
    found = links(reach, path)
    # A cached function has its entries itself.
    above = [link for link in found if link.index <= gatherer + (link.kind == "cache")]
    named = [link for link in above if link.kind in NAMED and link.name]
    base = next((link for link in reversed(named) if link.is_users), named[0] if named else None)
    if base is None:
        return None
    between = above[above.index(base) + 1 :]
    below = found[len(above) :]
    describe = _Describer(reach, path)
    what, is_reached = describe.gatherer(base, between, gatherer)
    ways = [] if is_reached else [link for link in between if link.kind in NAMED][-1:]
    ways = ways or [link for link in below if link.kind in NAMED and link.kind != "gradient"][:1]
    through = describe.link(ways[0]) if ways else ""
    kinds = {link.kind for link in [*between, *below]} | {base.kind}
    kind = next((one for one in ("exception", "hooks") if one in kinds), base.kind)
    file, line = _place(base, describe.value(base), reach)
    name = f"self.{base.name}" if base.kind in ("attribute", "buffer") else base.name
    name += "".join(f"[{link.name!r}]" if link.name else "[...]" for link in between if link.kind in ("key", "item"))
    holder = base.holder if base.kind in ("attribute", "buffer", "class attribute") else _kind_of(describe.value(base))
    classes = [link.holder for link in between if link.kind == "attribute"]
    collection = _kind_of(reach.objects[number])
    scope = not base.is_users, base.holder if base.kind == "variable" else ""
    holder = (classes or [holder])[-1]
    return Name(kind, what, name, holder, file, line, through, collection, *scope, "context" in kinds)


# What a link of a kind leads to; {kind} is the class of that.
_WORDS = {
    "parameter": "parameter '{name}' of {holder}",
    "buffer": "buffer '{name}' of {holder}",
    "attribute": "{kind} '{name}' of {holder}",
    "class attribute": "{kind} '{name}' of class {holder}",
    "closure": "{kind} '{name}' in the closure of {holder}",
    "default": "{kind} '{name}', a default argument of {holder}",
    "exception": "variable '{name}' of {holder}, which an exception keeps",
    "cache": "cache of {holder}",
    "context": "ctx.{name} of {holder}",
    "gradient": "gradient of {holder}",
    "hooks": "{hooks} of {holder}",
}


class _Describer:
    def __init__(self, reach: Reach, path: list[int]) -> None:
        self._reach = reach
        self._path = path

    def value(self, link: Link) -> Any:
        """What the link leads to."""
        return self._reach.objects[self._path[link.index]]

    def gatherer(self, base: Link, between: list[Link], index: int) -> tuple[str, bool]:
        """The gatherer in words, and whether these reach it: else the way from there to it is to be told."""
        gatherer = _kind_of(self._reach.objects[self._path[index]])
        if not between:
            return self.link(base), True
        if all(link.kind in ("key", "item") for link in between):
            keys = [link.name for link in between if link.name]
            quoted = f" '{keys[-1]}'" if keys and between[-1].name else ""
            return f"{gatherer}{quoted} in {self.link(base)}", True
        last = between[-1]
        is_part = last.kind in ("attribute", "parameter", "buffer", "hooks") and len(between) == 1
        if is_part and base.kind in ("variable", "context variable"):
            return f"{self.link(last)} '{base.name}'", True
        return self.link(base), False

    def link(self, link: Link) -> str:
        """What a link leads to, in words."""
        kind = _kind_of(self.value(link))
        if link.kind in ("variable", "context variable", "generator"):
            return self._variable(link, kind, f"'{link.name}'")
        words = _WORDS.get(link.kind, "variable '{name}' of {holder}")
        hooks = link.name.strip("_").replace("_", " ")
        return words.format(kind=kind, name=link.name, holder=link.holder, hooks=hooks)

    @staticmethod
    def _variable(link: Link, kind: str, named: str) -> str:
        if link.kind == "generator":
            return f"generator {link.name}()"
        if link.kind == "context variable":
            return f"{kind} of the context variable {named}"
        if link.is_users or not link.file:
            return f"{kind} {named}"
        where = os.path.basename(link.file) if link.holder == "<module>" else f"{link.holder}()"
        return f"{kind} {named} of {where}"


def _place(base: Link, value: Any, reach: Reach) -> tuple[str | None, int | None]:
    """Where the program assigns the name."""
    file = base.file
    if not file or not base.is_users:
        return None, None
    if base.kind == "variable":
        return _place_of_variable(base, value, reach)
    if base.kind in ("attribute", "class attribute", "parameter", "buffer", "context"):
        return file, source.line_of_attribute(file, base.holder, base.name)
    if base.kind in ("local", "exception"):
        return file, source.line_of_name(file, base.holder.removesuffix("()"), base.name)
    return file, base.line


def _place_of_variable(base: Link, value: Any, reach: Reach) -> tuple[str | None, int | None]:
    line = source.line_of_name(base.file or "", base.holder, base.name)
    if line is not None:
        return base.file, line
    # It was imported, or handed over as an argument: another variable may say where it is made.
    for root in reach.roots:
        if root.value is value and root.is_users and root.file and root.kind == "variable":
            line = source.line_of_name(root.file, root.function, root.name)
            if line is not None:
                return root.file, line
    return base.file, None


def _kind_of(value: Any) -> str:
    return "tensor" if live_tensors.is_tensor(value) else raw_objects.name_of(type(value))
