"""What all pages of ours are made with: templates, the style that they share, and round figures for charts."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ..._common.messages import format_bytes, format_count

if TYPE_CHECKING:
    import jinja2


def environment(folder: Path) -> jinja2.Environment:
    """Templates of a folder, and base.css of this one. All that they are given is text to them: it is escaped."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"bytes": format_bytes, "count": format_count, "moment": format_moment}
    return made


def format_moment(text: str) -> str:
    """2026-01-31T23:59:59+00:00 as it is said; any other text as it is."""
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return text
    zone = " UTC" if moment.utcoffset() == datetime.timedelta(0) else ""
    return f"{moment:%Y-%m-%d %H:%M}{zone}"
