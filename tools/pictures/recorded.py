"""The figures that pictures are drawn from, as they were recorded: small JSON files beside the pictures."""

from __future__ import annotations

import json
import pathlib
from importlib import metadata
from typing import Any

from . import ROOT

FOLDER = ROOT / "docs" / "pictures"
COMMAND = "python tools/pictures --record"


def write(name: str, recorded: dict[str, Any]) -> None:
    """Writes a recording with the command that makes it again, and the versions that it is true of."""
    header = {"made_by": COMMAND, "versions": versions()}
    # One field a line, so that a change can be read as a difference.
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in (header | recorded).items()]
    _file(name).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def read(name: str) -> dict[str, Any]:
    return json.loads(_file(name).read_text(encoding="utf-8"))


def _file(name: str) -> pathlib.Path:
    return FOLDER / f"{name}.json"


def versions() -> dict[str, str]:
    """Of torch without its variant, since the allocator is the same in each."""
    return {"torch": metadata.version("torch").split("+")[0], "frugal_alloc": metadata.version("frugal_alloc")}
