"""What the tests of bad input share: the command in this process, and samples of files."""

from __future__ import annotations

import sys
from pathlib import Path

from carried_out import command  # noqa: F401

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "reports"), str(TESTS / "cli"), str(TESTS / "top")]
