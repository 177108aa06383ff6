"""no_leaks(), track(), phase() and expect_growth(). Runs on the simulated GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable

import frugal_alloc
import pytest
import torch
from frugal_alloc import _native
from frugal_alloc._tracking import declarations, regions
from tensors_on_gpu import MIB, tensor
from torch import nn

pytestmark = pytest.mark.usefixtures("tracking")

kept_here: list[torch.Tensor] = []


def leave_product(net: nn.Module) -> None:
    kept_here.append(net(torch.rand(8000, 256, device="cuda")))


def leave_little() -> None:
    kept_here.append(torch.ones(1, device="cuda"))


def lines_left_by(leave: Callable[[], None]) -> list[str]:
    """What no_leaks() tells of what a call leaves behind, without the bytes."""
    with pytest.raises(frugal_alloc.LeakError) as error, frugal_alloc.no_leaks():
        leave()
    return [" ".join(line.split()[2:]) for line in str(error.value).splitlines()[1:]]


def place(function: Callable) -> str:
    """The first line of a function, as it is told."""
    return f"test_calls_on_gpu.py:{function.__code__.co_firstlineno + 1} in {function.__name__}"


def leave_a_cycle() -> None:
    cycle = [tensor()]
    cycle.append(cycle)


@pytest.mark.parametrize("leave", [tensor, leave_a_cycle])
def test_no_leaks_is_silent_where_nothing_is_left(leave: Callable) -> None:
    with frugal_alloc.no_leaks():
        leave()


def test_no_leaks_names_the_line_and_the_bytes_also_as_a_decorator() -> None:
    @frugal_alloc.no_leaks()
    def leaking() -> None:
        kept_here.append(tensor(3 * MIB))

    with pytest.raises(AssertionError, match=r"3\.00 MiB(.|\n)*tensors_on_gpu\.py") as error:
        leaking()
    assert error.type is frugal_alloc.LeakError


def test_no_leaks_counts_no_workspace_of_cublas() -> None:
    stream = torch.cuda.Stream()
    matrix = torch.ones(8, 8, device="cuda")
    for _ in range(2):
        with frugal_alloc.no_leaks(), torch.cuda.stream(stream):
            matrix @ matrix
    kept = []
    with pytest.raises(frugal_alloc.LeakError, match=r"1\.00 MiB"), frugal_alloc.no_leaks():
        matrix @ matrix
        kept.append(tensor(MIB))


def test_no_leaks_names_the_line_though_a_warm_up_made_cublas_workspace_there() -> None:
    net = nn.Linear(256, 256).cuda()
    leave_product(net)
    (text,) = lines_left_by(lambda: leave_product(net))
    assert text.endswith(place(leave_product))


def test_no_leaks_names_the_line_of_a_small_tensor_after_however_many_others() -> None:
    for _ in range(10_001):
        leave_little()
    (text,) = lines_left_by(leave_little)
    assert text.endswith(place(leave_little))


def test_no_leaks_says_where_no_line_is_known() -> None:
    def keep_a_tensor_of_pytorchs() -> None:
        frugal_alloc.disable()
        kept_here.append(tensor(4 * MIB))
        frugal_alloc.enable()

    (text,) = lines_left_by(keep_a_tensor_of_pytorchs)
    assert text.startswith("no line is known (")


def test_what_one_gpu_lets_go_makes_up_for_nothing_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    in_use = iter([{0: 100 * MIB, 1: 100 * MIB}, {0: 160 * MIB, 1: 0}])
    monkeypatch.setattr(regions, "_in_use", lambda: next(in_use))
    with pytest.raises(frugal_alloc.LeakError, match=r"60.0+ MiB on GPU 0"), regions.NoLeaks(10 * MIB):
        pass


def test_track_tells_what_a_region_kept_and_had_at_its_peak() -> None:
    before = tensor(5 * MIB)
    with frugal_alloc.measure("region") as region:
        kept = tensor(2 * MIB)
        tensor(4 * MIB)
        tensor(MIB)
    assert sum(region.kept.values()) == 2 * MIB, region.kept
    assert sum(region.peak.values()) == 6 * MIB, region.peak
    text = str(region)
    assert text.startswith("region: 6.00 MiB more at its peak, 2.00 MiB kept")
    assert "tensors_on_gpu.py" in text
    del before, kept


def test_what_a_region_kept_of_small_tensors_was_in_use_at_its_peak() -> None:
    with frugal_alloc.measure() as region:
        kept_here.append(torch.ones(2048, device="cuda"))
    assert [sum(region.peak.values()), sum(region.kept.values())] == [8192, 8192]


def test_tracks_may_be_nested() -> None:
    with frugal_alloc.measure() as outer:
        tensor(6 * MIB)
        with frugal_alloc.measure() as inner:
            tensor(2 * MIB)
        tensor(MIB)
    assert sum(outer.peak.values()) == 6 * MIB
    assert sum(inner.peak.values()) == 2 * MIB


def test_track_leaves_pytorchs_peak_alone() -> None:
    tensor(200 * MIB)
    peak = torch.cuda.max_memory_allocated()
    with frugal_alloc.measure():
        tensor()
    assert torch.cuda.max_memory_allocated() == peak


def test_phases_name_what_is_allocated_in_them() -> None:
    kept = []
    with frugal_alloc.phase("outer"):
        with frugal_alloc.phase("inner"):
            kept.append(tensor())
        kept.append(tensor())
    named = {site["phase"] for site in frugal_alloc.report().document["sites"] if site["bytes"]}
    assert {"outer", "inner"} <= named, named


def test_phase_decorates_recursive_functions_and_threads() -> None:
    seen = []

    @frugal_alloc.phase("recursion")
    def recurse(depth: int) -> None:
        seen.append((_native.load().set_phase("recursion"), declarations.current()))
        if depth:
            recurse(depth - 1)

    def in_a_thread() -> None:
        seen.append(("", declarations.current()))
        recurse(3)

    with frugal_alloc.phase("training"):
        thread = threading.Thread(target=in_a_thread)
        thread.start()
        thread.join()
        recurse(3)
        assert declarations.current() == "training"
    assert seen == [("", "")] + [("recursion", "recursion")] * 8
    assert (_native.load().set_phase(""), declarations.current()) == ("", "")


def test_names_must_be_texts() -> None:
    for call in (frugal_alloc.phase, frugal_alloc.expect_growth):
        for bad in ("", "  ", None, 3):
            with pytest.raises(frugal_alloc.FrugalAllocError, match="give a name"):
                call(bad)
