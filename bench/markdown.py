"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
