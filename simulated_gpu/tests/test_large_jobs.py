"""Programs that are too large for this host, or for the GPU, followed on the simulated GPU."""

from __future__ import annotations

import pytest
from checkout import GIB, output_of

RESIDENT = """
import re
def resident():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) << 10
"""


def test_large_data_takes_no_memory_of_the_host():
    out = output_of(
        RESIDENT
        + """
import torch
torch.zeros(1, device="cuda")
before = resident()
weights = torch.ones(1 << 28, device="cuda")
copy = weights.clone()
copy.fill_(2.0)
loaded = torch.empty(1 << 28).to("cuda")
back = copy.cpu()
print(back[12345].item(), (resident() - before) >> 20 < 64)
""",
        memory=4 * GIB,
        FRUGAL_SIM_KEEP="1MiB",
    )
    assert out == "0.0 True\n"


def test_small_values_stay_right_beside_large_data():
    out = output_of(
        """
import torch
labels = torch.tensor([3, 1, 2]).cuda()
total = torch.arange(5, device="cuda").sum()
print(labels.max().item(), total.item(), torch.ones(100, device="cuda").cpu().sum().item())
ids = torch.full((1 << 20,), 7).cuda()
print(ids.max().item(), ids.clone().max().item())
""",
        FRUGAL_SIM_KEEP="1MiB",
    )
    assert out == "3 10 100.0\n0 0\n"


WAITING = """
import torch
side = torch.cuda.Stream()
freed = []
for step in range(40):
    x = torch.empty(1 << 20, device="cuda")
    with torch.cuda.stream(side):
        for _ in range(step % 7):
            x.add_(1)
    x.record_stream(side)
    del x
    freed.append(torch.cuda.memory_reserved() >> 20)
print(freed, torch.arange(4, device="cuda").sum().item())
"""


def test_memory_that_waits_for_a_stream_behaves_alike_in_every_run():
    first = output_of(WAITING, FRUGAL_SIM_TIME="modelled")
    assert len(set(first.split("]")[0].split(","))) > 1, "some memory waits"
    assert first.endswith("] 6\n"), "values are computed"
    assert output_of(WAITING, FRUGAL_SIM_TIME="modelled") == first


@pytest.mark.parametrize("allocator", ["PyTorch's", "frugal_alloc"])
def test_program_that_does_not_fit_goes_on(allocator):
    switch = "import frugal_alloc; frugal_alloc.enable()" if allocator == "frugal_alloc" else ""
    out = output_of(
        switch
        + """
import torch
kept = [torch.empty((200 << 20) + (i << 21), dtype=torch.uint8, device="cuda") for i in range(20)]
free, total = torch.cuda.mem_get_info()
print(free, total >> 20, torch.cuda.max_memory_allocated() >> 20)
""",
        memory=2 * GIB,
        FRUGAL_SIM_BEYOND="1",
    )
    assert out == "0 2048 4380\n"
