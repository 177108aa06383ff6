"""The out-of-memory error of the example report, docs/reports/examples/out_of_memory.json, which documents quote."""

from __future__ import annotations

import json

from . import ROOT


def told() -> dict[str, str]:
    report = (ROOT / "docs" / "reports" / "examples" / "out_of_memory.json").read_text(encoding="utf-8")
    return {"error": json.loads(report)["oom"]["message"].rstrip()}
