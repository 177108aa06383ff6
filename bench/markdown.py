"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

NONE = "\N{EN DASH}"


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(value: float | None, form: str) -> str:
    """A number by format()'s rules, or a dash."""
    return NONE if value is None else format(value, form)
