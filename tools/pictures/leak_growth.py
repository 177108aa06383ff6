"""A leak through epochs, up to where memory runs out, and the same training healed.

What is drawn is the timeline of real reports: examples/stories/leak.py, docs/pictures/leak_growth.json.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from . import ROOT, simulated_run, stories
from .line_chart import Kind, Level, Line, LineChart, Mark

PROGRAM = ROOT / "examples" / "stories" / "leak.py"
GPU = "1536MiB"
_GIB = 1 << 30
# By name: the program's arguments.
RUNS = {
    "leaking": ("--allocator", "frugal"),
    "healed": ("--allocator", "frugal", "--healed"),
    "native": ("--allocator", "native"),
    "expandable": ("--allocator", "expandable"),
}


def record() -> dict[str, Any]:
    """Runs the program as it leaks, healed, and with PyTorch's own allocator."""
    found = dict(zip(RUNS, simulated_run.several(PROGRAM, list(RUNS.values()), ("--memory", GPU)), strict=True))
    drawn = {name: _drawn(found[name]) for name in ("leaking", "healed")}
    return {"gpu": GPU} | drawn | {name: _ended(found[name]) for name in ("native", "expandable")}


def _drawn(run: dict[str, Any]) -> dict[str, Any]:
    gpu = run["gpu"]
    return {
        **_ended(run),
        # The driver has the rest of the GPU.
        "available_bytes": gpu["total_bytes"] - gpu["outside_bytes"],
        # (epoch, the first verdict, epochs that are left by it), at the end of each epoch.
        "forecasts": run["forecasts"],
        # What is said of the leak in the first report that has one, without the figures of the GPU.
        "report": run["report"] and run["report"].partition("\n\nGPU 0")[0],
        # (epochs ended, most bytes in use since the point before).
        "points": [[epoch, peak] for _, _, epoch, _, _, peak, _ in run["timeline"]["points"]],
    }


def _ended(run: dict[str, Any]) -> dict[str, Any]:
    failed = run["failed_in"]
    most = [max(one) for one in zip(*run["steps"], strict=True)]
    return {"failed_in": failed, "error": failed and stories.error(run), "most_in_use_and_held": most}


def chart(data: dict[str, Any]) -> LineChart:
    leaking = _line(data["leaking"], "bad", "keeps each loss")
    found = _found(data)
    available = data["leaking"]["available_bytes"]
    marks = (
        Mark(f"leak told, {found[2]:.1f} epochs left", found[0], _at(leaking, found[0]), "bad", "dot"),
        Mark("out of memory", *leaking.points[-1], "bad"),
    )
    return LineChart(
        title="A leak: losses are kept with the graphs behind them",
        x_name="epochs",
        unit="MiB" if available < 2 * _GIB else "GiB",
        lines=(leaking, _line(data["healed"], "good", "keeps loss.item()")),
        levels=(Level("memory that the program can have", available),),
        marks=marks,
    )


def _found(data: dict[str, Any]) -> list[Any]:
    """The first epoch's end at which the report says that there is a leak."""
    return next(one for one in data["leaking"]["forecasts"] if one[1] == "leak")


def _line(run: dict[str, Any], kind: Kind, name: str) -> Line:
    return Line(name, kind, list(_points(run)))


def _points(run: dict[str, Any]) -> Iterator[tuple[float, int]]:
    """Those of an epoch at equal distances; one of which the end was not reached is as long as the one before."""
    count = 1
    for epoch, group in itertools.groupby(run["points"], key=lambda point: point[0]):
        peaks = [peak for _, peak in group]
        if epoch + 1 != run["failed_in"]:
            count = len(peaks)
        for place, peak in enumerate(peaks):
            yield epoch + place / count, peak
    if run["failed_in"] is None:
        yield len(run["forecasts"]), peaks[-1]


def _at(line: Line, x: float) -> float:
    return next(value for place, value in reversed(line.points) if place <= x)


def told(data: dict[str, Any]) -> dict[str, str]:
    epoch, _, left = _found(data)
    failed, healed = data["leaking"]["failed_in"], len(data["healed"]["forecasts"])
    return {
        "said": f"Memory rises with each epoch. After epoch {epoch} the report tells the leak, and that memory lasts "
        f"for {left:.1f} more epochs. It runs out in epoch {failed}. With loss.item() the same training stays flat for "
        f"{healed} epochs.",
        "report": data["leaking"]["report"],
        "failed": " or ".join(sorted({str(data[run]["failed_in"]) for run in RUNS if run != "healed"})),
        "healed_used": stories.mib(data["healed"]["most_in_use_and_held"][0]),
        "healed_epochs": str(healed),
        "found": str(epoch),
        "before": str(failed - epoch),
    }
