"""The process in which one program is recorded: ``python -m bench.recordings.worker NAME SEED SNAPSHOT``."""

from __future__ import annotations

import gc
import os
import random
import sys

import torch
from simulated_gpu.values import plausible

from .programs import PROGRAMS

_MOST_ENTRIES = 4_000_000


def main(name: str, seed: int, snapshot: str) -> None:
    if (backend := torch.cuda.memory.get_allocator_backend()) != "native":
        sys.exit(f"the allocator in place is {backend}, not native: unset what chooses it")
    steps, build = PROGRAMS[name]
    plausible.start()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    # What cycles hold goes after each step: Python's own moments differ from one of its versions to the next.
    gc.disable()
    torch.cuda.memory._record_memory_history(context=None, max_entries=_MOST_ENTRIES)
    # Weights that are drawn on the host would take most of the time.
    with torch.device("cuda"):
        step = build(random.Random(seed))
    for _ in range(steps):
        step()
        gc.collect()
    torch.cuda.memory._dump_snapshot(snapshot)
    # Without destructors, which have no order.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
