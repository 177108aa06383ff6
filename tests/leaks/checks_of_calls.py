"""Small claims about no_leaks(), track(), phase() and expect_growth(): run_checks.py runs each function."""

from __future__ import annotations

import threading

import frugal_alloc
import torch
from check_helpers import MIB, raising, tensor
from frugal_alloc import _native


def no_leaks_is_silent_where_nothing_is_left():
    with frugal_alloc.no_leaks():
        tensor()


def no_leaks_names_the_line_and_the_bytes():
    kept = []
    with raising(frugal_alloc.LeakError, "check_helpers.py"), frugal_alloc.no_leaks():
        kept.append(tensor(3 * MIB))
    assert issubclass(frugal_alloc.LeakError, AssertionError)
    try:
        with frugal_alloc.no_leaks():
            kept.append(tensor(3 * MIB))
    except frugal_alloc.LeakError as error:
        assert "3.00 MiB" in str(error), error


def no_leaks_allows_what_it_is_told_to():
    kept = []
    with frugal_alloc.no_leaks(allow_bytes=MIB):
        kept.append(tensor(MIB))


def no_leaks_counts_no_cycles():
    with frugal_alloc.no_leaks():
        cycle = [tensor()]
        cycle.append(cycle)
        del cycle


def no_leaks_lets_an_error_through():
    kept = []
    with raising(KeyError, "theirs"), frugal_alloc.no_leaks():
        kept.append(tensor())
        raise KeyError("theirs")


def no_leaks_counts_no_workspace_of_cublas():
    stream = torch.cuda.Stream()
    matrix = torch.ones(8, 8, device="cuda")
    for _ in range(2):
        with frugal_alloc.no_leaks(), torch.cuda.stream(stream):
            matrix @ matrix
    kept = []
    with raising(frugal_alloc.LeakError, "1.00 MiB"), frugal_alloc.no_leaks():
        matrix @ matrix
        kept.append(tensor(MIB))


def no_leaks_decorates():
    kept = []

    @frugal_alloc.no_leaks()
    def leaking():
        kept.append(tensor())

    with raising(frugal_alloc.LeakError, "in use"):
        leaking()


def track_tells_what_a_region_kept_and_had_at_its_peak():
    before = tensor(5 * MIB)
    with frugal_alloc.track("region") as region:
        kept = tensor(2 * MIB)
        tensor(4 * MIB)
        tensor(MIB)
    assert sum(region.kept.values()) == 2 * MIB, region.kept
    assert sum(region.peak.values()) == 6 * MIB, region.peak
    text = str(region)
    assert text.startswith("region: 6.00 MiB more at its peak, 2.00 MiB kept")
    assert "check_helpers.py" in text
    del before, kept


def tracks_may_be_nested():
    with frugal_alloc.track() as outer:
        tensor(6 * MIB)
        with frugal_alloc.track() as inner:
            tensor(2 * MIB)
        tensor(MIB)
    assert sum(outer.peak.values()) == 6 * MIB
    assert sum(inner.peak.values()) == 2 * MIB


def track_leaves_pytorchs_peak_alone():
    tensor(200 * MIB)
    peak = torch.cuda.max_memory_allocated()
    with frugal_alloc.track():
        tensor()
    assert torch.cuda.max_memory_allocated() == peak


def phases_name_what_is_allocated_in_them():
    kept = []
    with frugal_alloc.phase("outer"):
        with frugal_alloc.phase("inner"):
            kept.append(tensor())
        kept.append(tensor())
    phases = {site["phase"] for site in frugal_alloc.report().document["sites"] if site["bytes"]}
    assert {"outer", "inner"} <= phases, phases


def phase_decorates_recursive_functions_and_threads():
    seen = []

    @frugal_alloc.phase("recursion")
    def recurse(depth: int) -> None:
        seen.append(_native.load().set_phase("recursion"))
        if depth:
            recurse(depth - 1)

    thread = threading.Thread(target=recurse, args=(3,))
    thread.start()
    thread.join()
    recurse(3)
    assert seen == ["recursion"] * 8
    assert _native.load().set_phase("") == ""


def names_must_be_texts():
    for call in (frugal_alloc.phase, frugal_alloc.expect_growth):
        for bad in ("", "  ", None, 3):
            with raising(frugal_alloc.FrugalAllocError, "give a name"):
                call(bad)
