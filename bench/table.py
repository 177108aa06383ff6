"""A table of figures, as a document shows it and as a file keeps it."""

from __future__ import annotations

import csv
import io
from typing import NamedTuple

NONE = "\N{EN DASH}"


class Table(NamedTuple):
    head: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.head, *self.rows])
        return text.getvalue()


def cell(value: float | None, form: str) -> str:
    """A number by format()'s rules, or a dash."""
    return NONE if value is None else format(value, form)
