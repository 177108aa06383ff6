"""Of two looks at who holds a leak, the later one counts, unless what it could see had ended by then."""

from __future__ import annotations

import pytest
from frugal_alloc._heap.names import Name
from frugal_alloc._tracking import accusations, holders
from frugal_alloc._tracking.holders import Evidence, Holder


def name(what: str) -> Name:
    return Name("variable", what, what, "list", "train.py", 1)


def seen(share: float, size: int, *, by: str = "list", passed_over: str = "", is_nameless: bool = False) -> Evidence:
    held_by = [Holder(name(by), 1, round(size * share), share, False, False)] if share else []
    others = (name(passed_over),) if passed_over else ()
    return Evidence(held_by, False, False, [], size, share, is_nameless, others)


@pytest.mark.parametrize(
    ("now", "before", "is_now"),
    [
        (seen(0.98, 400), seen(0.65, 100), True),
        (seen(0.9, 400), seen(1, 100), True),
        (seen(0.9, 400), holders.NOTHING, True),
        # Found anew, among what was not let go: another may have had the rest.
        (seen(1, 100), seen(0.9, 400), False),
        (seen(0, 400), seen(0.9, 400), False),
        (seen(1, 400, is_nameless=True), seen(0.9, 400), False),
        # Who had all of a few has little of many.
        (seen(0, 400, passed_over="deque"), seen(1, 100, by="deque"), True),
        (seen(1, 400, by="object", passed_over="deque", is_nameless=True), seen(1, 100, by="deque"), True),
        # Since what it had was let go.
        (seen(0, 50, passed_over="list"), seen(1, 100), False),
    ],
)
def test_the_later_look_counts_unless_what_it_could_see_had_ended(
    now: Evidence, before: Evidence, is_now: bool
) -> None:
    assert accusations._says_more(now, before) is is_now
