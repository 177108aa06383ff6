"""The memory of a detector of TensorFlow's Object Detection API by step, up to where it runs out, and healed.

What is drawn is read from real logs: tests/reports/tensorflow, docs/pictures/tensorflow_growth.json.
"""

from __future__ import annotations

import re
from typing import Any

from . import ROOT, stories
from .line_chart import Kind, Level, Line, LineChart, Mark

ARTEFACTS = ROOT / "tests" / "reports" / "tensorflow"


def record() -> dict[str, Any]:
    """Reads the artefacts as `frugal-alloc report` does. Of a step (step, bytes between steps, most bytes so far)."""
    from frugal_alloc._command import report_files
    from frugal_alloc._report import text

    growing, healed = (report_files.read(ARTEFACTS / name) for name in ("detector.log.gz", "detector_healed.log.gz"))
    return {
        "limit_bytes": growing["oom"]["limit_bytes"],
        "bytes_per_step": growing["verdicts"][0]["bytes_per_step"],
        # What is said of the leak.
        "report": re.search(r"^frugal_alloc: leak.*?(?=\n\nGPU 0)", text.render(growing), re.MULTILINE | re.DOTALL)[0],
        "growing": _steps(growing),
        "healed": _steps(healed),
    }


def _steps(report: dict[str, Any]) -> list[list[int]]:
    return [[step, held, most] for _, step, _, _, held, most, _ in report["timeline"]["points"]]


def chart(data: dict[str, Any]) -> LineChart:
    last = data["growing"][-1][0]
    return LineChart(
        title="Most memory in use so far: an SSD of TensorFlow's Object Detection API",
        x_name="training steps",
        unit="MiB",
        lines=(
            _most(data, "growing", "bad", "keeps predictions"),
            _most(data, "healed", "good", "keeps boxes on the host"),
            Line("in use between steps", "live", [(at, held) for at, held, _ in data["growing"]]),
        ),
        levels=(Level("what TensorFlow may take", data["limit_bytes"]),),
        marks=(Mark("out of memory", last + 1, data["limit_bytes"], "bad"),),
    )


def _most(data: dict[str, Any], run: str, kind: Kind, name: str) -> Line:
    return Line(name, kind, [(step, most) for step, _, most in data[run]])


def told(data: dict[str, Any]) -> dict[str, str]:
    first, last, healed = data["growing"][0], data["growing"][-1], data["healed"][-1]
    return {
        "said": f"The most memory in use rises with each step from {stories.mib(first[2])} MiB to "
        f"{stories.mib(last[2])} MiB. TensorFlow may take {stories.mib(data['limit_bytes'])} MiB, and memory runs out "
        f"in step {last[0] + 1}. The healed training needs {stories.mib(healed[2])} MiB after {healed[0]} steps.",
        "report": data["report"],
        "rate": f"{data['bytes_per_step'] / (1 << 20):.2f}",
        "failed": str(last[0] + 1),
    }
