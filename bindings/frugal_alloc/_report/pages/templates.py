"""The environment of a page's templates. Importing this module needs jinja2."""

from __future__ import annotations

import datetime
from pathlib import Path

import jinja2

from ..._common.messages import format_bytes, format_count


def environment(folder: Path) -> jinja2.Environment:
    """Templates of a folder, and base.css of this one. All that they are given is text to them: it is escaped."""
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
