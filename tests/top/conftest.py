"""Runs the command in this process."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "cli"))
import carried_out

command = carried_out.command
