"""What lies beside the package where the check runs: a packed folder, a checkout, or nothing of either."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path

_PACKAGES = Path(__file__).resolve().parents[2]


def root() -> Path | None:
    """The folder with tests/ and bench/; None where the package was installed without them."""
    for folder in (_PACKAGES, _PACKAGES.parent):
        if (folder / "tests" / "bindings").is_dir() and (folder / "bench").is_dir():
            return folder
    return None


def commit() -> str | None:
    """Of the checkout that was packed; None if this was not."""
    try:
        return json.loads((_PACKAGES / "packed.json").read_text())["commit"]
    except (OSError, ValueError, KeyError):
        return None


def with_pytest(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which pytest can be imported: this Python's own, or else the one that was packed; without
    the plugins that happen to be installed."""
    result = {**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if importlib.util.find_spec("pytest") is None:
        entries = [*filter(None, result.get("PYTHONPATH", "").split(os.pathsep)), str(_PACKAGES / "vendored")]
        result["PYTHONPATH"] = os.pathsep.join(entries)
    return result
