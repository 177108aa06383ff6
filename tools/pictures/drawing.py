"""What all pictures are drawn with: shapes as SVG text, and colours for a light and a dark page.

A picture paints its own background, so that it can be read on a page whose theme is not the one that the reader's
system asks for. What is drawn once for wide and once for narrow screens stands in a `layer` each: the picture shows the
one that suits the width at which it is shown, which a page's own style could not change.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

WIDTH = 860
# Narrower than so many pixels on the screen, a picture shows what was drawn for a phone.
NARROW_BELOW = 560
# Of a letter, in parts of the size of the text; those of a wide typeface, since the reader's is not known.
_LETTER, _BOLD_LETTER = 0.58, 0.66
ROW = 1.2
_NO_BREAK = "\N{NO-BREAK SPACE}"

Anchor = Literal["start", "middle", "end"]


class Colour(NamedTuple):
    light: str
    dark: str


BACKGROUND = Colour("#ffffff", "#0d1117")
# Each has a contrast of at least 4.5 to the background. Orange, blue and purple stay apart for all kinds of colour
# blindness; nothing is told by colour alone.
TEXT = {
    "ink": Colour("#1f2328", "#e6edf3"),
    "note": Colour("#59636e", "#9da7b3"),
    "bad": Colour("#b42318", "#ff8a80"),
    "good": Colour("#0f6b3c", "#56d364"),
    "native": Colour("#a84300", "#ff9f5c"),
    "expandable": Colour("#8f3470", "#f0a6d0"),
    "ours": Colour("#0a55b0", "#6fb3ff"),
    "live": Colour("#59636e", "#9da7b3"),
}
_GRID = Colour("#d8dee4", "#2d333b")
_DASHES = {"native": "9 4", "bad": "9 4", "expandable": "2.5 3.5"}


def style(more: str = "", dark: str = "") -> str:
    """The picture's style sheet; `more` and `dark` are rules of its own, for any page and for a dark one."""
    lines = [f".line.{kind} {{ stroke-dasharray: {dashes}; }}" for kind, dashes in _DASHES.items()]
    return "\n".join(
        [
            'text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 17px; }',
            ".title, .bad, .good, .strong { font-weight: 600; }",
            ".line { fill: none; stroke-width: 2.5; stroke-linejoin: round; }",
            *lines,
            ".line.cross { stroke-width: 4; stroke-dasharray: none; }",
            ".line.thread { stroke-width: 1.5; stroke-dasharray: none; }",
            ".line.live { stroke-width: 1.2; }",
            ".area { fill-opacity: 0.28; }",
            ".grid { fill: none; stroke-width: 1; }",
            ".level { fill: none; stroke-width: 2; stroke-dasharray: 2 5; }",
            ".narrow { display: none; }",
            *_colours("light"),
            *([more] if more else []),
            "@media (prefers-color-scheme: dark) {",
            *_colours("dark"),
            *([dark] if dark else []),
            "}",
            f"@media (max-width: {NARROW_BELOW}px) {{ .wide {{ display: none; }} .narrow {{ display: inline; }} }}",
        ]
    )


def _colours(page: Literal["light", "dark"]) -> list[str]:
    background = getattr(BACKGROUND, page)
    rules = [f".background {{ fill: {background}; }}", f".grid {{ stroke: {getattr(_GRID, page)}; }}"]
    rules.append(f".level {{ stroke: {getattr(TEXT['ink'], page)}; }}")
    # An outline in the background's colour keeps a text apart from the lines that it stands on.
    outline = f"paint-order: stroke; stroke: {background}; stroke-width: 5px; stroke-linejoin: round;"
    rules.append(f"text {{ fill: {getattr(TEXT['ink'], page)}; {outline} }}")
    for kind, colour in TEXT.items():
        here = getattr(colour, page)
        rules.append(f"text.{kind}, .fill.{kind} {{ fill: {here}; }} .line.{kind} {{ stroke: {here}; }}")
    return rules


def text(x: float, y: float, words: str, kind: str = "", anchor: Anchor = "start", size: float = 0) -> str:
    """One row of text on the base line `y`; `size` in pixels, 0 for that of the style sheet."""
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' text-anchor="{anchor}"' if anchor != "start" else ""
    attributes += f' style="font-size: {number(size)}px"' if size else ""
    return f'<text x="{number(x)}" y="{number(y)}"{attributes}>{escape(words)}</text>'


def rectangle(x: float, y: float, width: float, height: float, kind: str, rounding: float = 0) -> str:
    corner = f' rx="{number(rounding)}"' if rounding else ""
    size = f'width="{number(width)}" height="{number(height)}"'
    return f'<rect x="{number(x)}" y="{number(y)}" {size}{corner} class="{kind}"/>'


def level_path(x: float, y: float, width: float, kind: str) -> str:
    return path(f"M{number(x)} {number(y)}h{number(width)}", kind)


def upright_path(x: float, y: float, height: float, kind: str) -> str:
    return path(f"M{number(x)} {number(y)}v{number(height)}", kind)


def cross_path(x: float, y: float, arm: float, kind: str) -> str:
    across = f"l{number(2 * arm)} {number(2 * arm)}m0 {number(-2 * arm)}l{number(-2 * arm)} {number(2 * arm)}"
    return path(f"M{number(x - arm)} {number(y - arm)}{across}", kind)


def dot(x: float, y: float, radius: float, kind: str) -> str:
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{kind}"/>'


def path(course: str, kind: str) -> str:
    return f'<path d="{course}" class="{kind}"/>'


def layer(name: Literal["wide", "narrow"], parts: Iterable[str]) -> str:
    """What is drawn for wide screens only, or for narrow ones."""
    return f'<g class="{name}">\n' + "\n".join(parts) + "\n</g>"


def picture(said: str, height: float, parts: Iterable[str], style_sheet: str = "") -> str:
    """The file's text; `said` is what a screen reader says of it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {number(height)}" role="img" '
        f"aria-label={quoteattr(said)}>\n<style>\n{style_sheet or style()}\n</style>\n"
        + "\n".join([rectangle(0, 0, WIDTH, height, "background", 8), *parts])
        + "\n</svg>\n"
    )


def number(value: float) -> str:
    """With one decimal at most: as fine as a screen shows."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def text_width(words: str, size: float, bold: bool = False) -> float:
    """About as wide as the words are, in pixels, rather too much than too little."""
    return len(words) * size * (_BOLD_LETTER if bold else _LETTER)


def wrapped(words: str, size: float, width: float, bold: bool = False) -> list[str]:
    """The words in rows of at most that width; a line break in them stays one, and a size is not taken apart."""
    words = re.sub(r"(?<=\d) (?=[KMG]iB\b)", _NO_BREAK, words)
    letters = max(1, int(width / text_width("n", size, bold)))
    return [row for line in words.split("\n") for row in textwrap.wrap(line, letters, break_long_words=False)]


def rows(x: float, y: float, texts: Sequence[str], kind: str, size: float, anchor: Anchor = "start") -> list[str]:
    """Texts below each other, the first on the base line `y`."""
    return [text(x, y + place * ROW * size, words, kind, anchor, size) for place, words in enumerate(texts)]
