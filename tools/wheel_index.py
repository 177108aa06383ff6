"""A page that leads to the distributions of a folder: what `pip install --find-links` reads from a web server."""

from __future__ import annotations

import hashlib
import html
import pathlib
import urllib.parse

NAME = "index.html"
_SUFFIXES = (".whl", ".tar.gz")


def write(folder: pathlib.Path) -> pathlib.Path:
    """Names each wheel and source distribution with its SHA-256, which pip compares; returns the page's path."""
    rows = []
    for path in sorted(folder.iterdir()):
        if path.name.endswith(_SUFFIXES):
            address = f"{urllib.parse.quote(path.name)}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"
            rows.append(f'<li><a href="{address}">{html.escape(path.name)}</a></li>\n')
    page = folder / NAME
    title = "frugal_alloc"
    page.write_text(
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n<h1>{title}</h1>\n'
        f"<p>pip install --no-index --find-links THIS-ADDRESS frugal_alloc</p>\n<ul>\n{''.join(rows)}</ul>\n</html>\n",
        encoding="utf-8",
    )
    return page
