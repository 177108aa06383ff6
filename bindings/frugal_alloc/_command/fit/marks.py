"""The texts of the journal's marks and labels, for those who write and those who read them."""

from __future__ import annotations

BACKWARD, AFTER_BACKWARD = "backward begins", "backward ended"
OPTIMIZER, AFTER_OPTIMIZER = "optimizer begins", "optimizer ended"
STEP, END = "step ended", "end"

# The machine's, of addresses; the others are components of verdict.py.
COPIED_FROM_HOST, WORKSPACE = "copied from host", "workspace"
