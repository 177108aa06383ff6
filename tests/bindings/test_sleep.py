"""frugal_alloc.sleep() and wake(): what sleeps comes back as it was, and the rest of the program goes on."""

from __future__ import annotations

import itertools
import threading

import frugal_alloc
import pytest
import torch
from binding_helpers import KIB, MIB, Simulation, simulated_gpu
from sleep_helpers import is_whole, name, nothing_sleeps_afterwards, numbers, sleeps, tagged

__all__ = ["name", "nothing_sleeps_afterwards"]  # fixtures
two_gpus = pytest.mark.skipif("torch.cuda.device_count() < 2", reason="there is only one GPU")


# --- What comes back


def test_memory_goes_to_the_driver_and_comes_back_with_its_values_and_address_and_is_counted_all_along(name):
    tensor = tagged(name, 64 * MIB)
    address = tensor.data_ptr()
    allocated, reserved, free = (
        torch.cuda.memory_allocated(),
        torch.cuda.memory_reserved(),
        torch.cuda.mem_get_info()[0],
    )
    slept = frugal_alloc.sleep(name)
    assert slept.given_back_bytes == 64 * MIB and sleeps(tensor)
    assert torch.cuda.memory_allocated() == allocated
    assert torch.cuda.memory_reserved() == reserved - 64 * MIB
    assert torch.cuda.mem_get_info()[0] == free + 64 * MIB
    assert frugal_alloc.wake() == 64 * MIB
    assert torch.cuda.memory_reserved() == reserved
    assert tensor.data_ptr() == address and is_whole(tensor)


@pytest.mark.parametrize("host", ["pinned", "pageable"])
def test_copies_lie_in_either_kind_of_host_memory(name, host):
    tensor = tagged(name)
    slept = frugal_alloc.sleep(name, host=host)
    assert slept.copied_bytes == slept.slept_bytes == 8 * MIB <= slept.host_bytes
    frugal_alloc.wake()
    assert is_whole(tensor)


def test_without_tags_everything_sleeps(name):
    plain, one = numbers(8 * MIB), tagged(name)
    slept = frugal_alloc.sleep()
    assert sleeps(plain) and sleeps(one)
    assert slept.tags[name] == 8 * MIB and slept.tags[""] >= 8 * MIB
    frugal_alloc.wake()
    assert is_whole(plain) and is_whole(one)


def test_tags_that_are_kept_stay_awake_and_others_sleep(name):
    kept, other = tagged(f"kept {name}"), tagged(name)
    frugal_alloc.sleep(keep=f"kept {name}")
    assert not sleeps(kept) and is_whole(kept) and sleeps(other)


def test_tags_alone_sleep_where_some_are_named(name):
    plain, one, other = numbers(8 * MIB), tagged(name), tagged(f"other {name}")
    assert frugal_alloc.sleep((name,)).tags == {name: 8 * MIB}
    assert [sleeps(tensor) for tensor in (plain, one, other)] == [False, True, False]
    assert frugal_alloc.sleep([]).slept_bytes == 0


def test_what_is_dropped_is_not_copied_and_can_be_written_anew(name):
    cache = tagged(name)
    slept = frugal_alloc.sleep(drop=name)
    assert slept.dropped_bytes == 8 * MIB
    frugal_alloc.wake()
    cache.copy_(numbers(8 * MIB))
    assert is_whole(cache)


def test_what_slept_before_is_dropped_and_poisoned_too(name):
    with frugal_alloc.tag(name):
        floats = torch.ones(2 * MIB, device="cuda")
    frugal_alloc.sleep(name)
    frugal_alloc.sleep(name, drop=name, check="poison")
    frugal_alloc.wake()
    assert floats.isnan().all()


def test_what_was_dropped_is_nan_where_it_is_poisoned(name):
    with frugal_alloc.tag(name):
        floats, whole = torch.ones(MIB, device="cuda"), numbers(8 * MIB)
        halves = torch.ones(2 * MIB, dtype=torch.bfloat16, device="cuda")
    kept = tagged(f"kept {name}")
    frugal_alloc.sleep([name, f"kept {name}"], drop=name, check="poison")
    frugal_alloc.wake()
    assert floats.isnan().all() and halves.isnan().all()
    assert (whole.cpu() == whole[0].cpu()).all() and not is_whole(whole) and is_whole(kept)


def test_a_second_sleep_adds_to_the_first_and_each_tag_wakes_by_itself(name):
    one, other = tagged(name), tagged(f"other {name}")
    frugal_alloc.sleep(name)
    assert frugal_alloc.sleep([name, f"other {name}"]).tags == {f"other {name}": 8 * MIB}
    assert frugal_alloc.asleep() == {name: 8 * MIB, f"other {name}": 8 * MIB}
    assert frugal_alloc.wake(name) == 8 * MIB
    assert is_whole(one) and sleeps(other)
    assert frugal_alloc.wake(name) == 0
    assert frugal_alloc.wake() == 8 * MIB and is_whole(other)
    assert frugal_alloc.asleep() == {}


def test_a_tag_without_memory_is_none_that_was_misspelt(name):
    tagged(name)
    assert frugal_alloc.sleep(name).slept_bytes == 0
    assert frugal_alloc.wake(name) == 0
    with pytest.raises(frugal_alloc.FrugalAllocError, match=f"{name}x") as refused:
        frugal_alloc.sleep(f"{name}x")
    assert name in str(refused.value) and "\n" not in str(refused.value)


# --- Meanwhile


def test_new_tensors_have_the_memory_of_those_that_sleep(name):
    total = torch.cuda.mem_get_info()[1]
    size = total * 5 // 8 // (2 * MIB) * 2 * MIB
    with frugal_alloc.tag(name):
        weights = torch.empty(size, dtype=torch.uint8, device="cuda")
    weights[-4:] = 7
    frugal_alloc.sleep(name, drop=name)
    other = torch.empty(size, dtype=torch.uint8, device="cuda")
    with pytest.raises(frugal_alloc.FrugalAllocError, match="memory"):
        frugal_alloc.wake()
    assert sleeps(weights), "all that is named wakes, or nothing"
    del other
    assert frugal_alloc.wake() == size


def test_another_thread_allocates_all_the_while(name):
    stop, failures = threading.Event(), []

    def work() -> None:
        sizes = itertools.cycle((3 * MIB, 20 * MIB, 600 * KIB, 64 * MIB))
        held = []
        while not stop.is_set():
            held = [*held[-3:], numbers(next(sizes))]
            failures.extend(1 for tensor in held if not is_whole(tensor))

    tensors = [tagged(name, size * MIB) for size in (2, 4, 30, 62)]
    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(8):
            assert frugal_alloc.sleep(name).slept_bytes == 98 * MIB
            assert frugal_alloc.wake() == 98 * MIB
    finally:
        stop.set()
        thread.join()
    assert not failures and all(map(is_whole, tensors))


def test_pinned_memory_is_kept_for_the_next_sleep_until_the_cache_is_emptied(name):
    tensor = tagged(name)
    frugal_alloc.sleep(name)
    frugal_alloc.wake()
    assert frugal_alloc.memory_stats()["host_copy_bytes"] >= 8 * MIB
    torch.cuda.empty_cache()
    assert frugal_alloc.memory_stats()["host_copy_bytes"] == 0 and is_whole(tensor)


@two_gpus
def test_all_gpus_sleep_and_wake_in_one_call(name):
    with frugal_alloc.tag(name):
        tensors = [numbers(8 * MIB, "cuda:0"), numbers(20 * MIB, "cuda:1")]
    slept = frugal_alloc.sleep(name)
    assert slept.slept_bytes == slept.given_back_bytes == 28 * MIB and all(map(sleeps, tensors))
    assert [frugal_alloc.memory_stats(gpu)["asleep_bytes"] for gpu in range(2)] == [8 * MIB, 20 * MIB]
    assert frugal_alloc.wake() == 28 * MIB and all(map(is_whole, tensors))


@two_gpus
def test_no_gpu_wakes_where_one_has_not_the_memory(name):
    with frugal_alloc.tag(name):
        tensors = [numbers(8 * MIB, "cuda:0"), numbers(20 * MIB, "cuda:1")]
    frugal_alloc.sleep(name)
    frugal_alloc.disable()  # of PyTorch's own, which gives none of it back
    rest = torch.empty(torch.cuda.mem_get_info(1)[0] - 8 * MIB, dtype=torch.uint8, device="cuda:1")
    frugal_alloc.enable()
    with pytest.raises(frugal_alloc.FrugalAllocError, match="GPU 1"):
        frugal_alloc.wake()
    assert all(map(sleeps, tensors))
    del rest
    torch.cuda.empty_cache()
    frugal_alloc.wake()
    assert all(map(is_whole, tensors))


# --- What fails


@simulated_gpu
@two_gpus
@pytest.mark.parametrize("check", [None, "poison"])
def test_what_was_to_be_dropped_is_whole_on_all_gpus_where_a_call_fails(name, check):
    tags = [f"dropped {name}", f"copied {name}"]
    with frugal_alloc.tag(tags[0]):
        dropped = [numbers(8 * MIB, f"cuda:{gpu}") for gpu in range(2)]
    with frugal_alloc.tag(tags[1]):
        copied = [numbers(8 * MIB, f"cuda:{gpu}") for gpu in range(2)]
    simulation, failed = Simulation(), 0
    for call in range(1, 12):
        # Twice, since one failure is made up for.
        with simulation.faults(f"driver.sync@{call}=unknown,driver.sync@{call + 1}=unknown"):
            try:
                frugal_alloc.sleep(tags, drop=tags[0], check=check)
            except frugal_alloc.FrugalAllocError:
                failed += 1
                assert frugal_alloc.asleep() == {} and all(map(is_whole, dropped)), call
        frugal_alloc.wake()
        assert all(map(is_whole, copied)), call
        for tensor in dropped:
            tensor.copy_(numbers(8 * MIB, str(tensor.device)))
    assert failed > 1


# --- What is refused


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda name: frugal_alloc.sleep(keep=name, drop=name), "in keep and in drop"),
        (lambda name: frugal_alloc.sleep([], drop=name), "not among tags"),
        (lambda name: frugal_alloc.sleep(host="disk"), "'pinned' or 'pageable'"),
        (lambda name: frugal_alloc.sleep(check="nan"), "None or 'poison'"),
        (lambda name: frugal_alloc.sleep(3), r"tags=\('weights',\)"),
        (lambda name: frugal_alloc.sleep(keep=[name, ""]), r"keep=\('weights',\)"),
        (lambda name: frugal_alloc.wake(["a\nb"]), r"tags=\('weights',\)"),
        (lambda name: frugal_alloc.tag(""), "is no name of a tag"),
        (lambda name: frugal_alloc.tag(None), "is no name of a tag"),
        (lambda name: frugal_alloc.retag([], "a\nb"), "is no name of a tag"),
        (lambda name: frugal_alloc.retag(name, name), "str is nothing that owns tensors"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(name, call, says):
    tensor = tagged(name)
    with pytest.raises(frugal_alloc.FrugalAllocError, match=says) as refused:
        call(name)
    assert "\n" not in str(refused.value) and not sleeps(tensor)


def test_nothing_falls_asleep_while_a_graph_is_captured(name):
    tensor, values = tagged(name), torch.zeros(9, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        values.add_(1)
        with pytest.raises(frugal_alloc.FrugalAllocError, match="captur"):
            frugal_alloc.sleep(name)
    assert is_whole(tensor)
