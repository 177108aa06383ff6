"""The page: one HTML file of a report, which refers to nothing outside of itself and shows everything without scripts.

Whatever comes from the document is text to it: the templates escape all of it. Importing this module needs jinja2.
"""

from __future__ import annotations

import collections
import functools
import itertools
from pathlib import Path
from typing import Any

import jinja2

from .._common.messages import format_code_line, format_count, share_text
from .._tracking.materiality import material_and_small
from . import gpus, headline, pages
from .address_space import address_spaces
from .chart import charts
from .flame import flame, is_library
from .join import rank_of, worst_first
from .schema import conform

# Of all that is drawn of several ranks together.
_MOST_SITES = 400
_MOST_CELLS = 1500
_MOST_CHARTS = 16
_MOST_VERDICTS = 50
_MOST_FRAMES = 40
_MOST_NOTES = 50
# Ranks whose charts are drawn; the table has all.
_MOST_DRAWN_RANKS = 8


def render(document: dict[str, Any]) -> str:
    """The page of a report document, joined or of one process; below 3 MB whatever the document's size.

    Raises:
        BadDocument: it is not a report.
    """
    document = conform(document)
    text, mood = headline.headline(document)
    groups, small = material_and_small(document["verdicts"])
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            document=document,
            headline=text,
            mood=mood,
            groups=groups[:_MOST_VERDICTS],
            left_out_verdicts=max(0, len(groups) - _MOST_VERDICTS),
            small=small[:_MOST_VERDICTS],
            small_count=headline.small_count(small),
            names_gpu=headline.has_several_gpus(document),
            holdings=_holdings(document["oom"]) if document["oom"] else [],
            pictures=_all_pictures(document),
            notes=document["notes"][:_MOST_NOTES],
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    """Compiles the templates once: a search for a batch that fits draws a page at each error."""
    environment = pages.environment(Path(__file__).parent)
    environment.filters |= {"command": _format_command, "share": share_text}
    environment.globals |= {
        "words": headline,
        "gpus": gpus,
        "found": _found,
        "place": format_code_line,
        "is_library": is_library,
        "stack": _stack,
    }
    return environment


def _all_pictures(document: dict[str, Any]) -> list[dict[str, Any]]:
    ranks = document["ranks"]
    if len(ranks) < 2:
        return [_pictures(document, "", "", 1)]
    # Those that are worst off, in the order of their numbers.
    order = worst_first(ranks)[:_MOST_DRAWN_RANKS]
    return [_pictures(ranks[n], f"r{n}-", f"rank {rank_of(ranks[n], n)}", len(order)) for n in sorted(order)]


def _found(verdicts: list[dict[str, Any]]) -> str:
    """What a rank has found, counted: 2 findings, 1 small one."""
    causes, small = material_and_small(verdicts)
    findings = format_count(len(causes), "finding")
    return f"{findings}, {headline.small_count(small)}" if small else findings


def _pictures(document: dict[str, Any], prefix: str, title: str, sharing: int) -> dict[str, Any]:
    """What is drawn of one process.

    Args:
        document: Its report.
        prefix: Keeps the ids of several processes apart.
        title: Which of several it is.
        sharing: How many such there will be on the page, which is to stay small.
    """
    sites = sorted(_lines(document), key=lambda one: (-max(one["bytes"], one["peak_bytes"]), -one["bytes"]))
    shown, rest = sites[: _MOST_SITES // sharing], sites[_MOST_SITES // sharing :]
    figures = ("peak_bytes", "bytes") if _is_over(document) else ("bytes", "peak_bytes")
    column = next((figure for figure in figures if any(site[figure] for site in sites)), figures[0])
    flames = (flame(document, figure, _MOST_CELLS // sharing) for figure in ("bytes", "peak_bytes"))
    return {
        "prefix": prefix,
        "title": title,
        "charts": charts(document)[: _MOST_CHARTS // sharing],
        "flames": [graph for graph in flames if graph],
        "sites": sorted(shown, key=lambda one: (-one[column], -one["peak_bytes"])),
        "opened": column,
        "left_out_sites": len(rest),
        "left_out_bytes": sum(site["bytes"] for site in rest),
        "address_spaces": address_spaces(document)[: _MOST_CHARTS // sharing],
    }


def _is_over(document: dict[str, Any]) -> bool:
    """Whether what the verdict is about is no longer in use."""
    causes, _ = material_and_small(document["verdicts"])
    return bool(causes) and causes[0].is_let_go


def _lines(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Sites as the table has them: one for all stacks that lead to a line, "within" which are those of libraries."""
    lines: dict[tuple, dict[str, Any]] = {}
    for site in document["sites"]:
        key = tuple(site[part] for part in ("gpu", "file", "line", "function", "phase", "node"))
        line = lines.setdefault(key, site | {"bytes": 0, "peak_bytes": 0, "blocks": 0, "within": collections.Counter()})
        for figure in ("bytes", "peak_bytes", "blocks"):
            line[figure] += site[figure]
        inner = itertools.takewhile(lambda frame: is_library(frame["file"]), _stack(site, document))
        if site["bytes"] and (frame := _telling(list(inner))) is not None:
            line["within"][frame["file"], frame["line"]] += site["bytes"]
    return list(lines.values())


def _stack(row: dict[str, Any], document: dict[str, Any]) -> list[dict[str, Any]]:
    return [document["frames"][number] for number in row["stack"][:_MOST_FRAMES]]


def _telling(frames: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Of the frames of libraries below a line of the user's the one that tells which part of a model it is."""
    of_library = (frame for frame in frames if "/torch/" not in frame["file"] and not frame["file"].startswith("<"))
    return next(of_library, None)


def _holdings(oom: dict[str, Any]) -> list[dict[str, Any]]:
    """Who held the GPU when memory ran out, and what was asked for, in percent of the whole."""
    parts = [
        ("tensors", "tensors", oom["allocated_bytes"]),
        ("awaiting", "freed, but a stream may still use it", oom["awaiting_bytes"]),
        (
            "free",
            "free, held by the allocator",
            oom["reserved_bytes"] - oom["allocated_bytes"] - oom["awaiting_bytes"] - oom["kept_bytes"],
        ),
        ("kept", "free, kept by CUDA graphs and pools", oom["kept_bytes"]),
        ("native", "PyTorch's own allocator", oom["native_reserved_bytes"]),
        ("outside", "outside of PyTorch: other programs, CUDA itself", oom["outside_bytes"]),
        ("unused", "not held by anybody", oom["device_free_bytes"]),
    ]
    whole = max(sum(max(size, 0) for _, _, size in parts), oom["device_total_bytes"], oom["requested_bytes"], 1)
    parts.append(("wanted", "asked for", oom["requested_bytes"]))
    return [
        {"style": style, "name": name, "bytes": size, "percent": 100 * size / whole}
        for style, name, size in parts
        if size > 0
    ]


def _format_command(words: list[str]) -> str:
    text = " ".join(words)
    return text if len(text) <= 200 else f"{text[:200]}…"
