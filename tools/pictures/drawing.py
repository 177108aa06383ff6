"""What all pictures are drawn with: charts and boxes by matplotlib, as SVG in colours for a light and a dark page.

A picture paints its own background, so that it can be read on a page whose theme is not the one that the reader's
system asks for. It is drawn twice, for wide and for narrow screens, and shows the one that suits the width at which it
is shown. Text stays text, in the reader's own typeface; the layout is that of a wide one.
"""

from __future__ import annotations

import io
import pathlib
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import blended_transform_factory

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


# Of text, each with a contrast of at least 4.5 to the background. Orange and blue stay apart for all kinds of colour
# blindness; nothing is told by colour alone.
TEXT = {
    "ink": Colour("#1f2328", "#e6edf3"),
    "note": Colour("#59636e", "#9da7b3"),
    "bad": Colour("#b42318", "#ff8a80"),
    "good": Colour("#0f6b3c", "#56d364"),
    "native": Colour("#a84300", "#ff9f5c"),
    "ours": Colour("#0a55b0", "#6fb3ff"),
}
COLOURS = TEXT | {
    "background": Colour("#ffffff", "#0d1117"),
    "grid": Colour("#d8dee4", "#2d333b"),
    "live": Colour("#cfd3d7", "#30363d"),
    "tensor": Colour("#c3cedd", "#37465c"),
    "free": Colour("#6e7781", "#9198a1"),
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


# --- Pieces of memory as boxes, at pixels from the upper left.

_KINDS = {
    "tensor": {"fc": LIGHT["tensor"], "lw": 0},
    "new": {"fc": LIGHT["new"], "lw": 0},
    "free": {"fill": False, "ec": LIGHT["free"], "lw": 2, "ls": (0, (2.5, 2))},
    "wanted": {"fill": False, "ec": LIGHT["bad"], "lw": 2},
}


def canvas(figure: Figure) -> Axes:
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, WIDTH), ylim=(figure.get_figheight() * 72, 0))
    return axes


def box(axes: Axes, x: float, y: float, width: float, height: float, kind: str) -> None:
    axes.add_patch(FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=4", **_KINDS[kind]))


def write(axes: Axes, x: float, y: float, words: str, kind: str = "ink", **options: object) -> None:
    """Text below `y`. What has an outcome's colour is bold."""
    weight = "bold" if kind in ("good", "bad") else "normal"
    axes.text(x, y, words, **({"color": LIGHT[kind], "va": "top", "weight": weight} | options))


def legend(axes: Axes, named: Mapping[str, str], left: float, told: str) -> None:
    """Along the lower side: what each kind of box is, and one more fact."""
    handles = [
        *(Patch(label=words, **_KINDS[kind]) for kind, words in named.items()),
        Patch(fill=False, lw=0, label=told),
    ]
    place = {"loc": "lower left", "bbox_to_anchor": (left / WIDTH, 0.01), "ncols": len(handles)}
    axes.legend(handles=handles, handlelength=1, handleheight=1, borderpad=0, labelcolor=LIGHT["note"], **place)


# --- Memory over steps, epochs or requests, as lines that keep their value until their next point.

CHART_HEIGHT = 540
_DASHED = ("native", "bad")
_UNITS = {"GiB": 1 << 30, "MiB": 1 << 20}


class Line(NamedTuple):
    """`points` are (x, bytes), by rising x. `kind` is its colour: an allocator's, or "bad" and "good" for a program
    before and after it is mended; "live" is a filled area."""

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


class Mark(NamedTuple):
    """A moment at (x, bytes), such as "out of memory", in the colour of its line; `shape` is a marker of matplotlib."""

    name: str
    kind: str
    shape: str
    x: float
    value: float


class Chart(NamedTuple):
    """`x_name` stands below it ("training step"), `unit` at its left side. Lines are drawn one over the other. `level`
    has the name and the bytes of a horizontal line over the whole width, such as the GPU's memory."""

    title: str
    x_name: str
    unit: str
    lines: Sequence[Line]
    level: tuple[str, float] | None = None
    marks: Sequence[Mark] = ()


def chart(drawn: Chart, said: str) -> str:
    """The SVG file's text; `said` tells the picture in words, for who does not see it."""
    return picture(f"{drawn.title}. {said}", CHART_HEIGHT, lambda figure, size: _chart(drawn, figure, size))


def _chart(drawn: Chart, figure: Figure, size: float) -> None:
    figure.set_layout_engine("constrained", w_pad=0.16, h_pad=0.12)
    figure.suptitle(wrapped(drawn.title, 1.15 * size), x=0.02, ha="left", weight="bold", size=1.15 * size)
    axes = figure.subplots()
    unit = _UNITS[drawn.unit]
    for line in drawn.lines:
        xs, values = [x for x, _ in line.points], [value / unit for _, value in line.points]
        if line.kind == "live":
            axes.fill_between(xs, values, step="post", color=LIGHT["live"], lw=0, label=line.name)
        else:
            look = {"color": LIGHT[line.kind], "ls": (0, (3.6, 1.6)) if line.kind in _DASHED else "-"}
            axes.plot(xs, values, drawstyle="steps-post", label=line.name, **look)
    for mark in drawn.marks:
        look = {"color": LIGHT[mark.kind], "markersize": 13, "markeredgewidth": 3.5 if mark.shape == "x" else 0}
        axes.plot([mark.x], [mark.value / unit], mark.shape, label=mark.name, clip_on=False, zorder=9, **look)
    most = max(value for one in drawn.lines for _, value in one.points) / unit
    if drawn.level:
        name, level = drawn.level[0], drawn.level[1] / unit
        most = max(most, level) * (1 + 0.008 * size)  # room for its name at the top
        axes.axhline(level, color=LIGHT["ink"], lw=2, ls=(0, (1, 2.5)))
        axes.annotate(name, (0, level), (4, 9), ("axes fraction", "data"), "offset points", weight="bold")
    axes.set_ylim(0, most)
    axes.set_xlabel(drawn.x_name)
    xs = [x for line in drawn.lines for x, _ in line.points]
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=all(float(x).is_integer() for x in xs)))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} {drawn.unit}" if value else "0")
    _name_lines(axes, size)


def _name_lines(axes: Axes, size: float) -> None:
    """Above the chart, in the colours of the lines."""
    columns = 3 if size < 20 else 2
    handles, names = axes.get_legend_handles_labels()
    names = [wrapped(name, size, WIDTH / columns - 2.6 * size) for name in names]
    above = blended_transform_factory(axes.figure.transFigure, axes.transAxes)
    place = {"loc": "lower left", "bbox_to_anchor": (0.01, 1.0), "bbox_transform": above}
    written = axes.legend(handles, names, ncols=columns, borderaxespad=0.4, **place).get_texts()
    for handle, text in zip(handles, written, strict=True):
        text.set_color(handle.get_color() if isinstance(handle, Line2D) else LIGHT["note"])
