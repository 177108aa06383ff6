"""What lies beside the steps where the check runs: a packed folder, or a checkout."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path

#: The folder with tests/ and bench/.
ROOT = Path(__file__).resolve().parents[2]
KERNELS = Path(__file__).resolve().parent / "kernels"


def commit() -> str | None:
    """Of the checkout that was packed; None if this was not."""
    try:
        return json.loads((ROOT / "packed.json").read_text())["commit"]
    except (OSError, ValueError, KeyError):
        return None


def with_pytest(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which pytest can be imported: this Python's own, or else the one that was packed; without
    the plugins that happen to be installed."""
    result = {**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if importlib.util.find_spec("pytest") is None:
        entries = [*filter(None, result.get("PYTHONPATH", "").split(os.pathsep)), str(ROOT / "vendored")]
        result["PYTHONPATH"] = os.pathsep.join(entries)
    return result
