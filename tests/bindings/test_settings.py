"""What a program told PyTorch's allocator before frugal_alloc took its place."""

import pytest
from binding_helpers import run_python

WARN = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch, frugal_alloc
    frugal_alloc.enable()
    frugal_alloc.disable()
    frugal_alloc.enable()
report(warnings=[str(w.message) for w in caught if "frugal_alloc" in str(w.message)])
tensor = torch.empty(1 << 20, device="cuda")
report(ours=frugal_alloc._native.load().owns(tensor.data_ptr()))
"""


@pytest.mark.parametrize("variable", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_settings_that_are_not_followed_are_named_in_one_warning(variable):
    result = run_python(WARN, **{variable: "expandable_segments:True,max_split_size_mb:128"})
    assert len(result["warnings"]) == 1
    assert "expandable_segments, max_split_size_mb" in result["warnings"][0]
    assert result["ours"]


def test_settings_that_are_followed_are_not_named():
    assert run_python(WARN, PYTORCH_ALLOC_CONF="pinned_num_register_threads:2")["warnings"] == []


def test_no_settings_no_warning():
    assert run_python(WARN)["warnings"] == []


@pytest.mark.parametrize("moment", ["before CUDA", "mid-run"])
def test_memory_fraction_set_before_goes_on_to_hold(moment):
    set_fraction = "torch.cuda.set_per_process_memory_fraction(0.25)\n"
    result = run_python(
        "import torch, frugal_alloc\n"
        + (set_fraction if moment == "mid-run" else "")
        + "frugal_alloc.enable()\n"
        + (set_fraction if moment == "before CUDA" else "")
        + """
total = torch.cuda.get_device_properties(0).total_memory
try:
    torch.empty(total // 2, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    report(error=str(error))
torch.empty(total // 8, dtype=torch.uint8, device="cuda")
report(fraction=torch.cuda.get_per_process_memory_fraction())
"""
    )
    assert "out of memory" in result["error"]
    assert result["fraction"] == 0.25
    assert result["status"] == 0


@pytest.mark.parametrize("size", [7 << 20, 100])
def test_history_recorded_before_covers_our_memory(size):
    result = run_python(
        f"""
import torch, frugal_alloc
torch.cuda.memory._record_memory_history(max_entries=1000)
older = torch.empty({size}, dtype=torch.uint8, device="cuda")
frugal_alloc.enable()
newer = torch.empty({size}, dtype=torch.uint8, device="cuda")
trace = torch.cuda.memory._snapshot()["device_traces"][0]
for name, tensor in dict(older=older, newer=newer).items():
    entries = [e for e in trace if e["addr"] == tensor.data_ptr() and e["action"] == "alloc"]
    report(**{{name: bool(entries and entries[-1]["size"] == {size} and entries[-1]["frames"])}})
torch.cuda.memory._record_memory_history(None)
report(ended=not any(torch.cuda.memory._snapshot()["device_traces"]))
"""
    )
    assert (result["older"], result["newer"], result["ended"]) == (True, True, True)
