"""Every recorded history and every generator replays without a byte that is reused before its last use is ordered."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import pytest
from frugal_alloc._planning.replay import history_files, replays
from frugal_alloc._planning.replay.history import History

from bench import generators

PLENTY = 200 << 30
PAGE = 2 << 20
# The streams are so many events behind the host, so that hardly anything has passed when its memory is wanted again.
STREAM_LAG = 40
ALLOCATORS = ("frugal", "native", "expandable") if os.environ.get("FRUGAL_ORDER_ALLOCATORS") == "all" else ("frugal",)

HISTORIES: dict[str, Callable[[], History]] = {
    **{name: lambda name=name: history_files.read(history_files.find(name)) for name in history_files.known_names()},
    **{name: lambda name=name: generators.generate(name) for name in generators.GENERATORS},
}


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_no_byte_is_reused_before_its_last_use_is_ordered(name: str, allocator: str) -> None:
    """With plenty of memory, and with 3 % more than is live at the peak, where memory moves between streams."""
    history = HISTORIES[name]()
    scarce = history.peak_live_bytes * 103 // 100 // PAGE * PAGE
    play = functools.partial(replays.Replayer().play, history, allocator, passes=2, checks_order=True)
    plenty, little = (play(capacity, stream_lag=STREAM_LAG) for capacity in (PLENTY, scarce))
    accesses, few = plenty["order_accesses"], little["order_accesses"]
    print(f"\n{name} with {allocator}: {accesses} accesses; of {scarce >> 20} MiB {few}: {little['outcome']}")
    assert plenty["outcome"] == "completed" and accesses >= 2 * (history.event_count - history.initial_count)
    assert few > 0
