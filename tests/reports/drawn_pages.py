"""The pages of reports and of fit's verdicts, and what a parser makes of one."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import report_samples
from frugal_alloc._planning.fit import page as verdict_page
from frugal_alloc._report import compare, comparison_page, join
from frugal_alloc._report import page as report_page
from frugal_alloc._report.schema import conform

sys.path.append(str(Path(__file__).resolve().parents[1] / "fit"))
import verdict_samples

REPORTS: dict[str, Callable[[], dict[str, Any]]] = {
    "healthy": report_samples.healthy,
    "leaking": report_samples.leaking,
    "small findings": lambda: report_samples.with_small_leaks(report_samples.leaking()),
    "out of memory": report_samples.out_of_memory,
    "hostile": report_samples.hostile,
    "huge": report_samples.huge,
    "nothing": lambda: {"schema": "frugal_alloc.report", "version": 1},
    "ranks": lambda: join.join([report_samples.rank(n, 3, report_samples.leaking()) for n in range(3)]),
}
VERDICTS = {f"fit: {name}": verdicts for name, verdicts in verdict_samples.ALL.items()}
COMPARED = {"comparison": ("leaking", "out of memory"), "comparison of ranks": ("ranks", "healthy")}
NAMES = (*REPORTS, *VERDICTS, *COMPARED)

# As report_samples has them, of verdicts.
_FIXED_IN_VERDICTS = {"phase", "component", "components", "allocator", "ended"}


def draw(name: str, change: Callable[[str], str] | None = None) -> str:
    """A page by its name; `change`: what is to stand in the place of each text that comes from a program."""
    with_texts = report_samples.with_texts
    if name in REPORTS:
        document = REPORTS[name]()
        return report_page.render(document if change is None else with_texts(document, change))
    if name in COMPARED:
        runs = [REPORTS[one]() for one in COMPARED[name]]
        runs = [conform(one if change is None else with_texts(one, change)) for one in runs]
        return comparison_page.render(compare.compare(*runs))
    verdicts = VERDICTS[name]
    return verdict_page.render(verdicts if change is None else with_texts(verdicts, change, _FIXED_IN_VERDICTS))


def text_of(rendered: str) -> str:
    """The words of a page's body."""
    body = rendered.partition("<body>")[2]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


class Seen(HTMLParser):
    """What a parser makes of a page. Every element that is opened is closed, in the order that nests them."""

    VOID = frozenset({"meta", "br", "link", "input"})

    def __init__(self, rendered: str) -> None:
        super().__init__()
        # All but texts, and the values that texts may go into.
        self.structure: list[tuple] = []
        self.values: list[tuple[str, str]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(rendered)
        self.close()
        assert not self._open

    def of(self, *names: str) -> list[str]:
        """The values of attributes."""
        return [value for name, value in self.values if name in names]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attributes)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.structure.append((tag, tuple(name for name, _ in attributes)))
        self.values += [(name, value or "") for name, value in attributes]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self.structure.append(("/" + tag,))

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            self.scripts.append(data)
        else:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.structure.append(("comment", data))

    def handle_decl(self, decl: str) -> None:
        self.structure.append(("declaration", decl))

    def handle_pi(self, data: str) -> None:
        self.structure.append(("instruction", data))

    def unknown_decl(self, data: str) -> None:
        self.structure.append(("unknown", data))
