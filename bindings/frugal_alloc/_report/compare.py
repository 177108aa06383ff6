"""Two runs, and what changed from the one to the other."""

from __future__ import annotations

from typing import Any

from .._common.messages import format_bytes, format_code_line, short_path
from .._tracking.materiality import Cause
from .diagnoses import DIAGNOSES
from .headline import headline, sentence

SCHEMA = "frugal_alloc.comparison"
VERSION = 1
_MOST_LINES = 20
# Smaller changes of a line are what any two runs differ by.
_LEAST_BYTES = 1 << 20
_LEAST_PART = 0.01

_GPU_FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "allocated_bytes")
_VERDICT_KEYS = (
    *("kind", "file", "line", "function", "node", "phase", "code"),
    *("bytes", "bytes_per_epoch", "bytes_per_step", "confidence", "material"),
)
_CHANGE = "before to after"  # of whichever of the two figures changed most
_SITE_FIGURES = ("peak_bytes", "bytes")


def compare(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What changed, as plain data: docs/reference/report.md tells the keys.

    Lines are told apart by file, function and code, so that they are found again where others were put before them.
    """
    old, new = _verdicts(before), _verdicts(after)
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "headlines": {"before": headline(before)[0], "after": headline(after)[0]},
        "oom": {name: run["oom"] and run["oom"]["verdict"] for name, run in (("before", before), ("after", after))},
        "gpus": _gpus(before, after),
        "verdicts": {
            "gone": [old[key] for key in old if key not in new],
            "new": [new[key] for key in new if key not in old],
            "still": [{"before": old[key], "after": new[key]} for key in new if key in old],
        },
        "lines": _lines(before, after),
    }


def _line_key(file: str | None, line: int | None, function: str, code: str) -> tuple:
    return (short_path(file or ""), function, code or line)


def _verdicts(document: dict[str, Any]) -> dict[tuple, dict[str, Any]]:
    found = {}
    for row in document["verdicts"]:
        key = (row["kind"], row["node"], *_line_key(row["file"], row["line"], row["function"], row["code"]))
        known = found.setdefault(key, {name: row[name] for name in _VERDICT_KEYS})
        known["material"] = known["material"] or row["material"]
    return found


def _gpus(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    old, new = ({(gpu.get("rank"), gpu["gpu"]): gpu for gpu in run["gpus"]} for run in (before, after))
    return [
        {"rank": key[0], "gpu": key[1]}
        | {figure: {"before": old[key][figure], "after": new[key][figure]} for figure in _GPU_FIGURES}
        for key in new
        if key in old
    ]


def _lines(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines whose share of the peak, or of what is held at the end, changed; the largest change first."""
    old, new = _held(before), _held(after)
    nothing = {"bytes": 0, "peak_bytes": 0}
    changes = []
    for key in {**old, **new}:
        was, now = old.get(key, nothing), new.get(key, nothing)
        change = max((now[figure] - was[figure] for figure in nothing), key=abs)
        largest = max(was[figure] for figure in nothing), max(now[figure] for figure in nothing)
        if abs(change) >= max(_LEAST_BYTES, _LEAST_PART * max(largest)):
            place = new.get(key) or old[key]
            changes.append(
                {name: place[name] for name in ("file", "line", "function", "code")}
                | {figure: {"before": was[figure], "after": now[figure]} for figure in nothing}
                | {"change_bytes": change}
            )
    return sorted(changes, key=lambda line: -abs(line["change_bytes"]))


def _held(document: dict[str, Any]) -> dict[tuple, dict[str, Any]]:
    """Of each line of the user's, what all of its sites held."""
    code = {(frame["file"], frame["line"]): frame["code"] for frame in document["frames"]}
    held: dict[tuple, dict[str, Any]] = {}
    for site in document["sites"]:
        text = code.get((site["file"], site["line"]), "")
        line = held.setdefault(
            _line_key(site["file"], site["line"], site["function"], text),
            {name: site[name] for name in ("file", "line", "function")} | {"code": text, "bytes": 0, "peak_bytes": 0},
        )
        line["bytes"] += site["bytes"]
        line["peak_bytes"] += site["peak_bytes"]
    return held


def to_text(comparison: dict[str, Any]) -> str:
    """The comparison for people."""
    lines = [f"before: {comparison['headlines']['before']}", f"after:  {comparison['headlines']['after']}", ""]
    lines += [text for _, text in errors(comparison)]
    lines += [_gpu_text(gpu) for gpu in comparison["gpus"]]
    told = [(f"{word}:" if word else "", text) for word, text in findings(comparison["verdicts"])]
    lines += [f"  {word:<7}{text}" if word else f"  {text}" for word, text in told]
    if comparison["lines"]:
        lines += ["", f"  {_CHANGE:<16} {'at the peak':<24} {'now':<24} line"]
        lines += [_line_text(line) for line in comparison["lines"][:_MOST_LINES]]
        if (more := len(comparison["lines"]) - _MOST_LINES) > 0:
            lines.append(f"  and {more} lines that changed less")
    else:
        lines += ["", "no line holds noticeably more or less than before"]
    return "\n".join(lines) + "\n"


def errors(comparison: dict[str, Any]) -> list[tuple[str, str]]:
    """Whether one of the runs alone was out of memory, as :func:`findings` has it."""
    names = {name: verdict and DIAGNOSES[verdict].short for name, verdict in comparison["oom"].items()}
    if bool(names["before"]) == bool(names["after"]):
        return []
    before, after = names["before"], names["after"]
    return [("", f"no longer out of memory ({before})" if before else f"newly out of memory: {after}")]


def findings(verdicts: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str]]:
    """Each that matters, in either run, after a word that says in which; and without one the number of the others."""
    gone, new = ([row for row in verdicts[name] if row["material"]] for name in ("gone", "new"))
    still = [pair for pair in verdicts["still"] if pair["before"]["material"] or pair["after"]["material"]]
    told = [("gone", sentence(Cause([verdict]))) for verdict in gone[:_MOST_LINES]]
    told += [("new", sentence(Cause([verdict]))) for verdict in new[:_MOST_LINES]]
    for pair in still[:_MOST_LINES]:
        before = format_bytes(pair["before"]["bytes_per_epoch"])
        told.append(("still", f"{sentence(Cause([pair['after']]))} (before: {before})"))
    shown = {"gone": len(gone), "new": len(new), "still": len(still)}
    small = [f"{count} {name}" for name in shown if (count := len(verdicts[name]) - shown[name])]
    return told + ([("", f"and of small ones {', '.join(small)}")] if small else [])


def name_of_gpu(gpu: dict[str, Any]) -> str:
    return f"GPU {gpu['gpu']}" if gpu["rank"] is None else f"rank {gpu['rank']}, GPU {gpu['gpu']}"


def _gpu_text(gpu: dict[str, Any]) -> str:
    peak, held = gpu["peak_allocated_bytes"], gpu["peak_reserved_bytes"]
    return f"{name_of_gpu(gpu)}: most allocated {_change(peak)}, most reserved {_change(held)}"


def difference(figure: dict[str, int]) -> str:
    """From before to after, signed; "" if there is none."""
    changed = figure["after"] - figure["before"]
    return ("+" if changed > 0 else "-") + format_bytes(abs(changed)) if changed else ""


def _change(figure: dict[str, int]) -> str:
    before, after = figure["before"], figure["after"]
    if before == after:
        return f"{format_bytes(after)}, as before"
    part = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{format_bytes(before)} → {format_bytes(after)}{part}"


def _line_text(line: dict[str, Any]) -> str:
    change = difference({"before": 0, "after": line["change_bytes"]})
    peak, now = (f"{format_bytes(line[key]['before'])} → {format_bytes(line[key]['after'])}" for key in _SITE_FIGURES)
    place = format_code_line(line["file"], line["line"]) or line["function"] or "not known"
    return f"  {change:<16} {peak:<24} {now:<24} {place}  {line['code'][:60]}".rstrip()
