"""What all pictures are drawn with: matplotlib's figures as SVG, in colours for a light and a dark page.

A picture paints its own background, so that it can be read on a page whose theme is not the one that the reader's
system asks for. It is drawn twice, for wide and for narrow screens, and shows the one that suits the width at which it
is shown. Text stays text, in the reader's own typeface; the layout is that of a wide one.
"""

from __future__ import annotations

import io
import pathlib
import re
import textwrap
from collections.abc import Callable
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import matplotlib
from matplotlib.figure import Figure

WIDTH = 860
# Narrower than so many pixels on the screen, a picture shows what was drawn for a phone.
NARROW_BELOW = 560
# Of text, in pixels.
SIZES = {"wide": 17, "narrow": 26}
_STYLE = pathlib.Path(__file__).resolve().parent / "style.mplstyle"
_FONTS = 'system-ui, "Segoe UI", Helvetica, Arial, sans-serif'
# Of a letter, in parts of the size of the text; those of a wide typeface, since the reader's is not known.
_LETTER = 0.62
_NO_BREAK = "\N{NO-BREAK SPACE}"


class Colour(NamedTuple):
    light: str
    dark: str


# Of text, each with a contrast of at least 4.5 to the background. Orange, blue and purple stay apart for all kinds of
# colour blindness; nothing is told by colour alone.
TEXT = {
    "ink": Colour("#1f2328", "#e6edf3"),
    "note": Colour("#59636e", "#9da7b3"),
    "bad": Colour("#b42318", "#ff8a80"),
    "good": Colour("#0f6b3c", "#56d364"),
    "native": Colour("#a84300", "#ff9f5c"),
    "expandable": Colour("#8f3470", "#f0a6d0"),
    "ours": Colour("#0a55b0", "#6fb3ff"),
}
COLOURS = TEXT | {
    "background": Colour("#ffffff", "#0d1117"),
    "grid": Colour("#d8dee4", "#2d333b"),
    "live": Colour("#cfd3d7", "#30363d"),
    "tensor": Colour("#c3cedd", "#37465c"),
    "free": Colour("#6e7781", "#9198a1"),
    "gone": Colour("#c4cad1", "#3d444d"),
    "new": Colour("#8fd6ae", "#14603a"),
}
#: By name, the colour to draw with: that of a light page, which the SVG changes for a dark one.
LIGHT = {name: colour.light for name, colour in COLOURS.items()}


def picture(said: str, height: float, draw: Callable[[Figure, float], None]) -> str:
    """The SVG file's text. `draw` is given a figure and the size of its text; `said` is told to who does not see it."""
    layers = []
    for layer, size in SIZES.items():
        settings = {"font.size": size, "svg.hashsalt": layer, **_coloured()}
        with matplotlib.rc_context(fname=_STYLE), matplotlib.rc_context(settings):
            figure = Figure(figsize=(WIDTH / 72, height / 72))
            draw(figure, size)
            written = io.StringIO()
            figure.savefig(written, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        layers.append(f'<g class="{layer}">\n{_body(written.getvalue())}</g>\n')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'viewBox="0 0 {WIDTH} {height:g}" aria-label={quoteattr(said)}>\n<style>\n{_style_sheet()}\n</style>\n'
        f'<rect class="page" width="{WIDTH}" height="{height:g}" rx="8"/>\n{"".join(layers)}</svg>\n'
    )


def wrapped(words: str, size: float, width: float = WIDTH - 40) -> str:
    """The words in rows of at most that width; a size is not taken apart."""
    words = re.sub(r"(?<=\d) (?=[KMG]iB\b)", _NO_BREAK, words)
    return textwrap.fill(words, max(1, int(width / (size * _LETTER))), break_long_words=False)


def _coloured() -> dict[str, str]:
    return {
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "text.color": LIGHT["ink"],
        "grid.color": LIGHT["grid"],
        **dict.fromkeys(("axes.labelcolor", "xtick.color", "ytick.color"), LIGHT["note"]),
    }


def _body(svg: str) -> str:
    """What matplotlib has drawn, in one layer of a file."""
    body = svg[svg.index('<g id="figure_1">') : svg.rindex("</svg>")]
    body = re.sub(r' id="[\w.]+_\d+"', "", body)
    body = re.sub(r"font: ([^;\"]*?)'DejaVu Sans'[^;\"]*", r"font: \1var(--fonts)", body)
    # As fine as a screen shows. What stands between tags is text.
    body = re.sub(r'="[^"]*"', lambda value: re.sub(r"(?<=\d\.\d)\d+", "", value[0]), body)
    for name, colour in COLOURS.items():
        body = body.replace(colour.light, f"var(--{name})")
    return "\n".join(line.strip() for line in body.splitlines() if line.strip()) + "\n"


def _style_sheet() -> str:
    def variables(page: str) -> str:
        return " ".join(f"--{name}: {getattr(colour, page)};" for name, colour in COLOURS.items())

    return "\n".join(
        [
            f"svg {{ --fonts: {_FONTS}; {variables('light')} }}",
            f"@media (prefers-color-scheme: dark) {{ svg {{ {variables('dark')} }} }}",
            "* { stroke-linejoin: round; stroke-linecap: butt; }",
            ".page { fill: var(--background); }",
            ".narrow { display: none; }",
            f"@media (max-width: {NARROW_BELOW}px) {{ .wide {{ display: none; }} .narrow {{ display: inline; }} }}",
        ]
    )
