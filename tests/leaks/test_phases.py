"""Which phase of the program a thread is in, without a GPU."""

from __future__ import annotations

import threading

from frugal_alloc._tracking.declarations import Phase, current


def test_the_phase_of_a_thread_is_the_innermost_that_it_is_in() -> None:
    seen = [current()]
    with Phase("training"):
        with Phase("evaluation"):
            seen.append(current())
        seen.append(current())
    seen.append(current())
    assert seen == ["", "evaluation", "training", ""]


def test_another_thread_is_in_none() -> None:
    seen = []
    with Phase("training"):
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert seen == [""]
