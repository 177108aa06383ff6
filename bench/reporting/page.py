"""The page: what the figures say, in the order in which it is shown. The templates turn it into HTML."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import jinja2
import markupsafe
from frugal_alloc import _amounts

from . import charts
from .metrics import NOTHING, OURS, format_percent, metrics
from .micro import Micro
from .replays import Bar, Constrained, Input, Play, Replays, Value
from .trainings import Trainings

Chart = TypeVar("Chart")

# Each has a colour in style.css.
TITLES = {
    "frugal": "frugal_alloc",
    "native": "native",
    "expandable": "expandable segments",
    "async": "cudaMallocAsync",
    "rmm": "RMM pool",
    "rmm_pool": "RMM pool",
    "rmm_arena": "RMM arena",
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How ours stands to a bar, by its worst history."""

    bar: Bar
    worst: Value | None
    # Of each other allocator, its worst.
    others: dict[str, Value | None]
    # "stretch", "reached", "short", "unmeasured"; without a bar "stretch", "short_of_stretch" or "information".
    state: str
    # Where ours falls short of the bar, or of the stretch if there is no bar.
    short_of: list[Value]


def render(replays: Replays, trainings: Trainings | None, micro: Micro | None) -> str:
    """The page in HTML. It refers to nothing outside of itself."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": format_bytes,
        "figure": format_figure,
        "percent": format_percent,
        "title": title,
        "style": style_class,
        "moment": format_moment,
        "breakable": breakable,
    }
    return environment.get_template("page.html.jinja").render(
        replays=replays,
        verdicts=[verdict(bar) for bar in replays.bars],
        metrics=metrics(replays),
        memory=_of_each_history(replays, charts.memory_chart, lambda play: play.series),
        strips=_of_each_history(replays, charts.strip_chart, lambda play: play.runs),
        constrained=_constrained(replays.constrained),
        trainings=trainings,
        micro=micro,
        charts=charts,
        ours=OURS,
    )


def title(allocator: str) -> str:
    return TITLES.get(allocator, allocator)


def style_class(allocator: str) -> str:
    """The CSS class of its colour; a name that is not known gets the one for all others."""
    return allocator.replace("_", "-") if allocator in TITLES else "other"


def breakable(name: str) -> markupsafe.Markup:
    """A name that may go on in the next line after an underscore."""
    return markupsafe.Markup("_<wbr>").join(name.split("_"))


def format_bytes(size: float | None) -> str:
    if size is None:
        return NOTHING
    return _amounts.format_bytes(size)


def format_moment(text: str) -> str:
    """2026-01-31T23:59:59Z as it is said; any other text as it is."""
    try:
        moment = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return text
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def format_figure(value: float | None) -> str:
    """As many digits as tell something; thousands apart."""
    if value is None:
        return NOTHING
    if value == int(value):
        return f"{int(value):,}"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if value >= 10 else f"{value:.4f}".rstrip("0")


def verdict(bar: Bar) -> Verdict:
    ours = [value for value in bar.values if value.allocator == OURS]
    others = dict.fromkeys(value.allocator for value in bar.values if value.allocator != OURS)
    has_stretch = bar.stretch is not None or bar.stretch_is is not None
    short_of_stretch = [value for value in ours if not value.meets_stretch] if has_stretch else []
    short_of = short_of_stretch if bar.bar is None else [value for value in ours if not value.meets_bar]
    if not ours:
        state = "unmeasured"
    elif short_of:
        state = "short_of_stretch" if bar.bar is None else "short"
    elif has_stretch and not short_of_stretch:
        state = "stretch"
    else:
        state = "information" if bar.bar is None else "reached"
    return Verdict(
        bar=bar,
        worst=_worst(bar, ours),
        others={name: _worst(bar, [value for value in bar.values if value.allocator == name]) for name in others},
        state=state,
        short_of=short_of,
    )


def _worst(bar: Bar, values: Sequence[Value]) -> Value | None:
    """The one that did not complete, else the one farthest on the wrong side."""
    if not values:
        return None
    if failed := [value for value in values if value.value is None]:
        return failed[0]
    sign = -1 if bar.at_least else 1
    # One that is excused, as a few handles over are, is not the worst while another falls short.
    return max(values, key=lambda value: (bar.bar is not None and not value.meets_bar, sign * value.value))


def _of_each_history(
    replays: Replays, draw: Callable[[Input, dict], Chart | None], of: Callable[[Play], list]
) -> list[Chart]:
    """The charts of those histories for which there is something to draw."""
    found = []
    for history in replays.inputs:
        plays = {play.allocator: of(play) for play in replays.plays if play.history == history.name}
        if chart := draw(history, plays):
            found.append(chart)
    return found


def _constrained(plays: list[Constrained]) -> dict[float, dict[str, list[Constrained]]]:
    """By ratio, then by allocator."""
    groups: dict[float, dict[str, list[Constrained]]] = {}
    for play in sorted(plays, key=lambda play: play.ratio):
        groups.setdefault(play.ratio, {}).setdefault(play.allocator, []).append(play)
    return groups
