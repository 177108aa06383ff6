"""What an allocation and its free take the host, by size, through each allocator: ``python -m hardware.pairs``.

//bench:micro_bench asks the same of one build of torch, which cannot travel; these are histories that the replay plays.
"""

from __future__ import annotations

from frugal_alloc._command.doctor.machine import is_simulated
from frugal_alloc._common.messages import format_bytes
from frugal_alloc._planning.replay import replays

from bench.generators.recorder import Recorder

_SIZES = (512, 4 << 10, 256 << 10, 1 << 20, 16 << 20, 256 << 20)
_PAIRS = 200_000
#: So many live beside the pairs.
_LIVE = 8
_ALLOCATORS = ("native", "expandable", "frugal")


def main() -> None:
    simulated, replayer = is_simulated(), replays.Replayer(replays.REAL)
    print(f"{'ns a pair':12}{''.join(f'{name:>12}' for name in _ALLOCATORS)}")
    for size in _SIZES[:1] if simulated else _SIZES:
        recorder = Recorder()
        for _ in range(_LIVE):
            recorder.allocate(size)
        for _ in range(1000 if simulated else _PAIRS):
            recorder.temporary(size)
        history, cells = recorder.history(f"pairs of {size}"), []
        for allocator in _ALLOCATORS:
            found = replayer.measure(history, allocator, replays.DEFAULT_CAPACITY, find_minimum=False)
            cells.append("not shown" if simulated else f"{found.ns_per_pair or 0.0:.0f}" if found.completed else "full")
        print(f"{format_bytes(size):12}{''.join(f'{cell:>12}' for cell in cells)}", flush=True)


if __name__ == "__main__":
    main()
