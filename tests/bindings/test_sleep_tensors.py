"""A tensor that sleeps: PyTorch says so whoever uses it, and all that looks at tensors goes on."""

from __future__ import annotations

import copy
import gc
import io
import json
import os
import re
import weakref
from collections.abc import Callable
from pathlib import Path

import frugal_alloc
import pytest
import torch
from binding_helpers import GIB, KIB, MIB, empty, room
from frugal_alloc._command.top import layout, picture
from frugal_alloc._common.messages import format_bytes
from frugal_alloc._report import page
from frugal_alloc._tracking import holders
from sleep_helpers import name, nothing_sleeps_afterwards, sleeps
from torch import nn

HERE = Path(__file__)


__all__ = ["name", "nothing_sleeps_afterwards"]  # fixtures


@pytest.fixture
def model(name: str) -> nn.Module:
    """One that sleeps, with its gradients and its optimizer's state."""
    with frugal_alloc.tag(name):
        made = nn.Linear(1024, 2048, device="cuda")
        made.optimizer = torch.optim.Adam(made.parameters())
        made(torch.ones(2, 1024, device="cuda")).sum().backward()
        made.optimizer.step()
    made.ones = torch.ones(2, 1024, device="cuda")
    made.half = made.weight.detach()[: 1 << 10]
    frugal_alloc.sleep(name)
    return made


USES: dict[str, Callable[[nn.Module], object]] = {
    "forward": lambda model: model(model.ones),
    "an operator": lambda model: model.weight + 1,
    "a view that was made before": lambda model: model.half * 2,
    "a view that is made now": lambda model: model.weight[3:].sum(),
    "writing in place": lambda model: model.weight.data.zero_(),
    "a copy to it": lambda model: model.half.copy_(model.half.new_zeros(1024, 1024)),
    "its gradient": lambda model: model.weight.grad.norm(),
    "the optimizer": lambda model: model.optimizer.step(),
    "item": lambda model: model.weight[0, 0].item(),
    "cpu": lambda model: model.weight.cpu(),
    "repr": lambda model: repr(model.weight),
    "data_ptr": lambda model: model.weight.data_ptr(),
    "torch.save": lambda model: torch.save(model.state_dict(), io.BytesIO()),
    "deepcopy": copy.deepcopy,
    "dlpack": lambda model: torch.utils.dlpack.to_dlpack(model.half),
    "other libraries": lambda model: model.half.__cuda_array_interface__,
    "sharing": lambda model: model.half.untyped_storage()._share_cuda_(),
    "resizing": lambda model: model.half.untyped_storage().resize_(0),
    "keep_in_place": lambda model: frugal_alloc.keep_in_place(model.weight),
}


@pytest.mark.parametrize("use", USES)
def test_whatever_uses_a_tensor_that_sleeps_is_told_its_tag_its_line_and_what_to_do(model, name, use):
    with pytest.raises(RuntimeError, match=rf"this tensor sleeps \(tag '{name}', allocated at ") as error:
        USES[use](model)
    told = str(error.value).splitlines()[0]
    assert f"{HERE.name}:" in told and f"call frugal_alloc.wake('{name}') first" in told


def test_what_needs_no_data_goes_on(model):
    weight = model.weight
    assert (weight.shape, weight.is_cuda, weight.device.index, weight.numel()) == ((2048, 1024), True, 0, 2 << 20)
    assert weight.T.shape == (1024, 2048) and weight.view(-1).detach().is_contiguous()
    assert weight.untyped_storage().nbytes() == 8 * MIB and torch.empty_like(weight).shape == weight.shape
    assert len(model.state_dict()) == 2 and weight in {weight}


def test_another_tensor_may_take_its_place(model):
    model.weight.data = torch.ones(2048, 1024, device="cuda")
    model.bias = None
    assert model(model.ones).shape == (2, 2048)


def test_once_awake_it_is_used_as_ever(model):
    frugal_alloc.wake()
    model.optimizer.step()
    assert model(model.ones).shape == (2, 2048) and copy.deepcopy(model.half).data_ptr()
    assert "sleeps" not in repr(model.weight)


def test_it_goes_with_its_last_reference(name):
    with frugal_alloc.tag(name):
        tensor = empty(8 * MIB)
    frugal_alloc.sleep(name)
    allocated, gone = torch.cuda.memory_allocated(), weakref.ref(tensor)
    cycle = [tensor]
    cycle.append(cycle)
    del tensor, cycle
    gc.collect()
    assert gone() is None and torch.cuda.memory_allocated() == allocated - 8 * MIB


def test_a_sleep_holds_no_tensor(model):
    frugal_alloc.wake()
    gone = weakref.ref(model.half)
    slept = frugal_alloc.sleep()
    model.half = None
    gc.collect()
    assert gone() is None and slept.slept_bytes


# --- What is told


def test_the_result_says_what_slept_and_what_stayed_why_and_of_which_line(name):
    cached = f"cache {name}"
    with frugal_alloc.tag(cached):
        cache = empty(64 * MIB)
    with frugal_alloc.tag(name):
        pages, small = empty(32 * MIB), empty(600 * KIB)
        kept = torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")
    beside = empty(600 * KIB)
    with frugal_alloc.keep_in_place(kept):
        slept = frugal_alloc.sleep([name, cached], drop=cached)
    assert slept.dropped_bytes == 64 * MIB and slept.slept_bytes == slept.dropped_bytes + slept.copied_bytes
    stayed = {row.why: row for row in slept.stayed if row.tag == name}
    in_place = stayed["kept in place"]
    assert in_place.bytes == 8 * MIB and f"{HERE.name}:" in in_place.line
    assert stayed["shares a page with memory that stays awake"].bytes == 600 * KIB
    text = str(slept)
    assert "64.00 MiB dropped" in text.splitlines()[0]
    assert "stayed awake" in text and in_place.line in text and "kept in place" in text
    assert not any(map(sleeps, (small, kept, beside))) and all(map(sleeps, (pages, cache)))


def test_memory_of_pytorchs_own_stays_and_is_told():
    frugal_alloc.disable()
    older = empty(40 * MIB)
    frugal_alloc.enable()
    rows = [row for row in frugal_alloc.sleep().stayed if row.why == "PyTorch's own memory"]
    assert sum(row.bytes for row in rows) >= 40 * MIB and older.data_ptr()


def test_the_report_its_page_and_memory_stats_tell_what_sleeps(model, name):
    report = frugal_alloc.report()
    document = json.loads(report.to_json())
    (gpu,) = document["gpus"]
    assert gpu["asleep"] == [{"tag": name, "bytes": frugal_alloc.asleep()[name]}]
    assert gpu["asleep_host_bytes"] == frugal_alloc.memory_stats()["host_copy_bytes"] > 0
    assert frugal_alloc.memory_stats()["asleep_bytes"] == gpu["asleep"][0]["bytes"]
    assert f"asleep ({name} 32." in str(report)
    assert f"asleep ({name} 32." in page.render(document)


KEPT: list[torch.Tensor] = []


def test_who_holds_what_sleeps_is_found_as_ever(name):
    with frugal_alloc.tag(name):
        KEPT.extend(empty(8 * MIB) for _ in range(3))
    blocks = [(tensor.data_ptr(), 8 * MIB, -1) for tensor in KEPT]
    try:
        awake = holders.find([blocks])
        frugal_alloc.sleep(name)
        assert holders.find([blocks]) == awake and awake[0].is_explained
        assert "KEPT" in awake[0].holders[0].name.what
    finally:
        KEPT.clear()


def test_top_tells_what_sleeps(model):
    (process,) = [one for one in picture.take()["processes"] if one["pid"] == os.getpid()]
    (gpu,) = [one for one in process["gpus"] if one["gpu"] == 0]
    assert gpu["asleep_bytes"] == frugal_alloc.memory_stats()["asleep_bytes"]
    told = [
        line.text for line in layout.lines({"processes": [process], "gpus": [], "of_other_users": 0, "left_out": 0})
    ]
    assert f"GPU 0: {format_bytes(gpu['asleep_bytes'])} of what is allocated is asleep" in told
    assert gpu["waste_bytes"] >= gpu["reserved_bytes"] - gpu["allocated_bytes"] + gpu["asleep_bytes"]


def test_what_sleeps_is_no_part_of_an_out_of_memory_error(model):
    with room(GIB), pytest.raises(torch.OutOfMemoryError) as error:
        empty(3 * GIB)
    assert "Too big" in str(error.value) and re.search(r"32\.\d\d MiB more sleep", str(error.value))
