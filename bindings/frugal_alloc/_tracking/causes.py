"""Which verdicts are parts of one leak, and are told together."""

from __future__ import annotations

from typing import Any

Verdict = dict[str, Any]
#: The verdicts of one cause, the largest first.
Cause = list[Verdict]
# Nothing that is inferred from some epochs is certain.
MOST_CONFIDENCE = 0.99


def grouped(verdicts: list[Verdict]) -> list[Cause]:
    """Verdicts that are parts of one leak: the lines of a graph that one variable holds, or where that is not known,
    those of one phase that one remedy mends. All of a cause are on one GPU."""
    groups: dict[tuple, Cause] = {}
    for number, verdict in enumerate(verdicts):
        key: tuple = (number,)
        if verdict["held_by"]:
            holder = verdict["held_by"][0]
            key = (verdict["kind"] == "suspect", verdict["pattern"], holder["what"], holder["line"])
        elif verdict["pattern"]:
            key = (verdict["kind"], verdict["pattern"], verdict["phase"], verdict["advice"])
        groups.setdefault((verdict["gpu"], key), []).append(verdict)
    return list(groups.values())


def material_and_small(verdicts: list[Verdict]) -> tuple[list[Cause], list[Cause]]:
    """The causes that matter, and those that are only counted and told last."""
    material = [verdict for verdict in verdicts if verdict["material"]]
    small = [verdict for verdict in verdicts if not verdict["material"]]
    return grouped(material), grouped(small)
