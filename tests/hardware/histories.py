"""Recorded runs through each allocator: ``python -m hardware.histories FILE...``. Exit status: 1 where ours does not
complete one that another completes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from frugal_alloc._command import replay
from frugal_alloc._command.doctor.machine import described
from frugal_alloc._command.options import ALLOCATORS
from frugal_alloc._planning.replay import history_files, replays

from hardware.on_gpu import ALONE


def lost(measured: Sequence[replays.Measurement]) -> list[str]:
    """What another completes and ours does not."""
    completed = {(row.history, row.allocator) for row in measured if row.completed}
    others = {history for history, _ in completed}
    return sorted(history for history in others if (history, "frugal") not in completed)


def main() -> int:
    capacity = replays.DEFAULT_CAPACITY if ALONE else described()["free_bytes"] // 4
    replayer, measured = replays.Replayer(replays.REAL), []
    for history in (history_files.read(Path(path)) for path in sys.argv[1:]):
        measured += [replayer.measure(history, each, capacity, find_minimum=False) for each in ALLOCATORS]
    print("\n".join(replay._table(measured)))
    for history in lost(measured):
        print(f"failed: {history}: ours does not complete it in {capacity >> 20} MiB, and another does")
    return 1 if lost(measured) else 0


if __name__ == "__main__":
    sys.exit(main())
