"""The site's colours, which are those of the pictures in it."""

from __future__ import annotations

from typing import Literal

from pictures import drawing


def style_sheet() -> str:
    return "\n".join(_scheme(name, page) for name, page in (("default", "light"), ("slate", "dark")))


def _scheme(name: str, page: Literal["light", "dark"]) -> str:
    background = getattr(drawing.BACKGROUND, page)
    variables = {kind: getattr(colour, page) for kind, colour in drawing.TEXT.items()}
    lines = "".join(f"  --site-{kind}: {colour};\n" for kind, colour in variables.items())
    return f'[data-md-color-scheme="{name}"] {{\n  --site-background: {background};\n{lines}}}\n'
