"""Running out of memory: who is told, with which words, and that the program can go on."""

import contextlib
import re
from collections.abc import Iterator

import frugal_alloc
import pytest
import torch
from binding_helpers import GIB, MIB, Simulation, collect, empty, is_ours, natively, room, simulated_gpu

TOO_MUCH = 1 << 44


@contextlib.contextmanager
def memory_limit(text: str) -> Iterator[None]:
    frugal_alloc.enable(memory_limit=text)
    try:
        yield
    finally:
        frugal_alloc.enable(memory_limit="off")


@pytest.fixture
def out_of_memory():
    """Provokes an error, and returns it."""

    def provoke(size: int = TOO_MUCH) -> torch.OutOfMemoryError:
        with pytest.raises(torch.OutOfMemoryError) as raised:
            empty(size)
        return raised.value

    return provoke


def test_error_says_what_native_and_what_others_hold(out_of_memory):
    collect()
    with natively():
        native = empty(300 * MIB)
    ours = empty(200 * MIB)
    text = " ".join(str(out_of_memory()).split())
    held = re.search(r"frugal_alloc has reserved \S+ \w+: (\S+) MiB allocated", text)
    assert held and float(held[1]) >= ours.numel() / MIB, text
    free, total = torch.cuda.mem_get_info()
    reserved = torch.cuda.memory_reserved()
    own = frugal_alloc.memory_stats()["reserved_bytes"]
    units = {"bytes": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": GIB}
    for holder, size in (
        ("native allocator has reserved", reserved - own),
        ("(?:Others hold|The other)", total - free - reserved),
    ):
        said = re.search(rf"{holder} ([\d.]+) (\w+)", text)
        assert said, text
        assert float(said[1]) * units[said[2]] == pytest.approx(size, rel=0.01), text
    del native, ours


@simulated_gpu
def test_error_names_a_failure_of_the_driver_on_the_way(out_of_memory):
    empty(MIB)
    with Simulation().faults("memory_info@1=invalid_value"):
        assert "The CUDA driver failed on the way, which may be why: cuMemGetInfo" in str(out_of_memory())


def test_retries_of_ours_count(out_of_memory):
    empty(MIB)
    before, ours = torch.cuda.memory_stats()["num_alloc_retries"], frugal_alloc.memory_stats()["retries"]
    out_of_memory()
    risen = frugal_alloc.memory_stats()["retries"] - ours
    assert risen > 0
    assert torch.cuda.memory_stats()["num_alloc_retries"] >= before + risen


def test_natives_cache_is_given_back_before_giving_up():
    with room(5 * GIB):
        with natively():
            cached = empty(2 * GIB)
        del cached
        free, _ = torch.cuda.mem_get_info()
        assert free < 4 * GIB
        assert is_ours(empty(free + GIB))


def test_our_idle_memory_is_given_back_when_native_needs_it():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *arguments: seen.append(arguments))
    ooms = torch.cuda.memory_stats()["num_ooms"]
    with room(6 * GIB):
        ours = empty(4 * GIB)
        del ours
        with natively():
            native = empty(3 * GIB)
        assert not is_ours(native)
        del native
    assert not seen
    assert torch.cuda.memory_stats()["num_ooms"] == ooms


@simulated_gpu
def test_a_limit_is_set_although_the_driver_fails_once():
    empty(MIB)
    with Simulation().faults("memory_info@1=invalid_value"), memory_limit("8GiB"):
        assert frugal_alloc.memory_stats()["limit_bytes"] == 8 * GIB


@simulated_gpu
def test_a_limit_that_could_not_be_set_is_not_set_later():
    empty(MIB)
    with (
        Simulation().faults("memory_info@1+=invalid_value"),
        pytest.raises(frugal_alloc.FrugalAllocError, match="could not limit memory"),
    ):
        frugal_alloc.enable(memory_limit="1GiB")
    # Works the limit out anew, from all that are set.
    torch.cuda.set_per_process_memory_fraction(0.75)
    try:
        assert frugal_alloc.memory_stats()["limit_bytes"] == torch.cuda.get_device_properties(0).total_memory * 3 // 4
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@simulated_gpu
def test_a_fraction_that_could_not_be_set_holds_for_nobody():
    empty(MIB)
    with Simulation().faults("memory_info@1+=invalid_value"), pytest.raises(RuntimeError, match="could not limit"):
        torch.cuda.set_per_process_memory_fraction(0.1)
    assert torch.cuda.get_per_process_memory_fraction() == 1.0
    with natively():
        assert not is_ours(empty(3 * GIB))
    # Works the limit out anew, from all that are set.
    with memory_limit("8GiB"):
        assert frugal_alloc.memory_stats()["limit_bytes"] == 8 * GIB


@simulated_gpu
@pytest.mark.parametrize("kind", ["reserve", "map", "set_access"])
def test_memory_that_the_driver_fails_to_map_is_natives(kind):
    collect()
    torch.cuda.empty_cache()
    failures = frugal_alloc.memory_stats()["driver_failures"]
    with torch.cuda.stream(torch.cuda.Stream()), Simulation().faults(f"{kind}@1+=invalid_value"):
        block = empty(300 * MIB)
        assert not is_ours(block)
    assert frugal_alloc.memory_stats()["driver_failures"] > failures
    del block
    assert is_ours(empty(300 * MIB))


@simulated_gpu
def test_free_memory_is_joined_where_the_driver_has_less_than_it_says():
    collect()
    torch.cuda.empty_cache()
    pieces = [empty(200 * MIB) for _ in range(3)]
    stitches = frugal_alloc.memory_stats()["stitches"]
    del pieces[::2]
    with Simulation().faults("create@1+=out_of_memory"):
        joined = empty(300 * MIB)
        assert is_ours(joined)
    assert frugal_alloc.memory_stats()["stitches"] == stitches + 1
    del joined, pieces


@simulated_gpu
def test_a_driver_that_refuses_what_it_says_is_free_is_told():
    collect()
    torch.cuda.empty_cache()
    kept = [empty(100 * MIB) for _ in range(3)]
    with (
        Simulation().faults("create@1+=out_of_memory,malloc@1+=out_of_memory"),
        pytest.raises(torch.OutOfMemoryError, match=r"\nRefused: .* are free, of which the driver needs") as raised,
    ):
        empty(300 * MIB)
    del kept
    assert "kept = None before line" in str(raised.value) and not re.search(
        r"\b0 bytes (more|missing|that)", str(raised.value)
    )


@simulated_gpu
def test_failure_of_the_driver_that_native_meets_too_is_an_error_with_its_name():
    collect()
    torch.cuda.empty_cache()
    with (
        torch.cuda.stream(torch.cuda.Stream()),
        Simulation().faults("map@1+=invalid_value,malloc@1+=invalid_value"),
        pytest.raises(RuntimeError, match="invalid argument") as raised,
    ):
        empty(300 * MIB)
    assert not isinstance(raised.value, torch.OutOfMemoryError)
    assert is_ours(empty(300 * MIB))
