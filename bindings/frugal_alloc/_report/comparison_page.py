"""What changed from one run to another, as a page. Importing this module needs jinja2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._common.messages import format_code_line
from . import compare, pages

# More make a page that nobody reads to its end.
_MOST_LINES = 400
_FIGURES = {
    "peak_allocated_bytes": "most allocated",
    "peak_reserved_bytes": "most reserved",
    "allocated_bytes": "allocated at the end",
}


def render(comparison: dict[str, Any]) -> str:
    """The page of what compare.compare() gives; it refers to nothing outside of itself."""
    environment = pages.environment(Path(__file__).parent)
    environment.filters |= {"difference": compare.difference, "gpu": compare.name_of_gpu, "standing": _standing}
    return environment.get_template("comparison.html.jinja").render(
        comparison=comparison,
        figures=_FIGURES,
        findings=[*compare.errors(comparison), *compare.findings(comparison["verdicts"])],
        lines=comparison["lines"][:_MOST_LINES],
        left_out=max(0, len(comparison["lines"]) - _MOST_LINES),
        place=format_code_line,
    )


def _standing(line: dict[str, Any]) -> str:
    """Whether only one of the runs has a line."""
    was, now = (any(line[figure][run] for figure in ("bytes", "peak_bytes")) for run in ("before", "after"))
    return "" if was and now else "new" if now else "gone"
