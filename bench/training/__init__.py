"""Trainings and other programs of real size, whose allocations are recorded and whose speed is compared."""

from __future__ import annotations

NATIVE, EXPANDABLE, OURS, UNTRACKED = "native", "expandable", "ours", "ours, track:off"
ALLOCATORS = (NATIVE, EXPANDABLE, OURS, UNTRACKED)
