"""Where the package under test lies, for this process and for those that it starts."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "bindings"


def package_first(environment: dict[str, str]) -> dict[str, str]:
    """The environment in which a child imports the package from this checkout, installed or not."""
    path = [environment.get("PYTHONPATH", ""), str(PACKAGE)]
    return environment | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
