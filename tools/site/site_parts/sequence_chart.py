"""Draws Mermaid's `sequenceDiagram`: participants beside each other, messages and notes below each other.

Of its language it knows `participant`, `->>`, `-->>` and `Note over`. It scrolls where the screen is narrow.
"""

from __future__ import annotations

import html
import re

from .flowchart import NotDrawn

_COLUMN, _ROW, _HEAD, _MARGIN = 178, 46, 50, 8
_PARTICIPANT = re.compile(r"participant (\w+)(?: as (.+))?")
_MESSAGE = re.compile(r"(\w+)(--?>>)(\w+): (.+)")
_NOTE = re.compile(r"Note over ([\w, ]+): (.+)")


def figure(source: str) -> str:
    """The diagram as HTML."""
    columns: dict[str, float] = {}
    parts: list[str] = []
    said: list[str] = []
    y = float(_HEAD + _MARGIN)
    for line in filter(None, (line.strip() for line in source.strip().split("\n")[1:])):
        if found := _PARTICIPANT.fullmatch(line):
            columns[found[1]] = _MARGIN + (len(columns) + 0.5) * _COLUMN
            parts.append(_head(columns[found[1]], re.split("<br/?>", found[2] or found[1])))
            continue
        y += _ROW
        if (found := _MESSAGE.fullmatch(line)) and {found[1], found[3]} <= set(columns):
            parts.append(_message(columns[found[1]], columns[found[3]], y, found[4], found[2] == "-->>"))
        elif (found := _NOTE.fullmatch(line)) and set(found[1].replace(" ", "").split(",")) <= set(columns):
            places = [columns[name] for name in found[1].replace(" ", "").split(",")]
            parts.append(_note(sum(places) / len(places), y, found[2]))
        else:
            raise NotDrawn(f"tools/site cannot draw this line of a diagram: {line}")
        said.append(found[found.lastindex])
    width, height = 2 * _MARGIN + len(columns) * _COLUMN, y + 24
    lives = "".join(f'<path class="life" d="M{x:.0f} {_HEAD + _MARGIN}V{height:.0f}"/>' for x in columns.values())
    return (
        f'<figure class="sequence" tabindex="0"><svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{html.escape("; ".join(said))}">{lives}{"".join(parts)}'
        "</svg></figure>"
    )


def _head(x: float, rows: list[str]) -> str:
    box = f'<rect x="{x - _COLUMN / 2 + 4:.0f}" y="{_MARGIN}" width="{_COLUMN - 8}" height="{_HEAD}" rx="5"/>'
    # The file below a name is as long as its path.
    shown = [rows[0], *(row.rsplit("/", 1)[-1] for row in rows[1:])]
    texts = (
        _text(x, _MARGIN + 20 + 18 * place + (8 if len(shown) == 1 else 0), row, "" if place else "first")
        for place, row in enumerate(shown)
    )
    return box + "".join(texts)


def _message(start: float, end: float, y: float, words: str, is_answer: bool) -> str:
    if start == end:
        course, tip, middle = f"M{start:.0f} {y - 8:.0f}h24v14h-15", (end + 9, -9), start + 12
    else:
        back = -9 if end > start else 9
        course, tip, middle = f"M{start:.0f} {y:.0f}H{end + back:.0f}", (end + back, -back), (start + end) / 2
    level = y + (6 if start == end else 0)
    head = f"{tip[0]:.0f},{level - 4.5:.1f} {tip[0] + tip[1]:.0f},{level:.1f} {tip[0]:.0f},{level + 4.5:.1f}"
    kind = ' class="answer"' if is_answer else ""
    return f'<path{kind} d="{course}"/><polygon points="{head}"/>' + _text(middle, y - 12, words)


def _note(x: float, y: float, words: str) -> str:
    width = 7.2 * len(words) + 20
    box = f'<rect class="note" x="{x - width / 2:.0f}" y="{y - 20:.0f}" width="{width:.0f}" height="28" rx="3"/>'
    return box + _text(x, y - 1, words)


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{f" class={kind}" if kind else ""}>{html.escape(words)}</text>'
