"""What an out-of-memory error says: the verdict, who asked, and who holds the memory; and what reports have of it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import re
import signal
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import frugal_alloc
import pytest
import torch
from binding_helpers import GIB, MIB, collect, cuda_runtime, empty, limit, room, run_python, simulated_gpu
from frugal_alloc import _native
from frugal_alloc._report import files
from frugal_alloc._simulation.simulated_gpu import environment as simulated_environment
from out_of_memory_messages import failure, leaving, line_of


def test_verdict_comes_right_after_pytorchs_sentence_with_the_bytes_missing_on_a_small_first_screen() -> None:
    with leaving(100 * MIB):
        text = failure(empty, 300 * MIB)
    lines = text.splitlines()
    assert lines[0].startswith("CUDA out of memory. Tried to allocate 300.00 MiB. GPU 0 has a total capacity of ")
    sentence = " ".join(lines[1:3])
    assert re.match(r"Too big: \S+ GiB of live tensors and this request need 20\d\.\d\d MiB more", sentence), text
    assert len(lines) <= 26, text
    assert all(len(line) <= 100 for line in lines[1:] if not line.startswith("Report")), text


def test_request_has_its_line_and_code() -> None:
    with leaving(32 * MIB):
        text = failure(lambda: torch.ones(64 * MIB, device="cuda"))
    request = line_of("Request", text)
    assert re.match(r"256\.00 MiB at \S*test_explanations\.py:\d+ in ", request), text
    assert 'torch.ones(64 * MIB, device="cuda")' in request


def test_largest_holder_comes_first() -> None:
    with leaving(500 * MIB):
        large = torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")
        small = torch.empty(50 * MIB, dtype=torch.uint8, device="cuda")
        text = failure(empty, GIB)
    del large, small
    holders = re.findall(r"(\d+\.\d\d \w+)  \S*:\d+ \(", text)
    assert holders[0].endswith("GiB") and holders[1:3] == ["200.00 MiB", "50.00 MiB"], text


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        return values * 2

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * torch.ones(GIB, device="cuda")[: len(gradient)]


def test_backward_in_a_thread_of_autograds_has_node_and_forward_line() -> None:
    values = torch.zeros(64 * MIB, device="cuda", requires_grad=True)
    result = values.exp().sum()
    with leaving(64 * MIB):
        text = failure(result.backward)
    assert re.search(r"Backward\d", line_of("Request", text)), text
    assert "test_explanations.py" in line_of("Request", text), text


def test_python_in_a_backward_has_its_own_line() -> None:
    values = torch.zeros(100, device="cuda", requires_grad=True)
    result = Doubled.apply(values).sum()
    with leaving(64 * MIB):
        text = failure(result.backward)
    assert "torch.ones(GIB" in line_of("Request", text), text


def test_thread_of_the_programs_own_is_explained() -> None:
    texts = []
    with leaving(64 * MIB):
        thread = threading.Thread(target=lambda: texts.append(failure(empty, GIB)))
        thread.start()
        thread.join()
    assert "Too big" in texts[0] and "Change first" in texts[0]


def test_nothing_is_kept_alive_and_deleting_frees() -> None:
    gone = []

    def fail() -> None:
        local = empty(10 * MIB)
        gone.append(weakref.ref(local))
        before = torch.cuda.memory_allocated()
        with contextlib.suppress(torch.OutOfMemoryError):
            empty(1 << 44)
        del local
        assert torch.cuda.memory_allocated() == before - 10 * MIB
        assert gone[0]() is None

    # Running out of memory has garbage collected; what the tests before have left must not count.
    collect()
    gc.disable()
    try:
        fail()
    finally:
        gc.enable()


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("place", ["frugal_alloc._out_of_memory.situation._pieces", "gc.collect"])
def test_what_a_signal_handler_raises_meanwhile_follows_the_error(place: str, monkeypatch: Any) -> None:
    """The library calls us, and nothing can be raised through it: until then the error is as without us."""

    def interrupt(number: int, frame: Any) -> None:
        raise Interrupted

    monkeypatch.setattr(place, lambda *_: signal.raise_signal(signal.SIGUSR1))
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupted) as raised:
            try:
                empty(1 << 44)
            except torch.OutOfMemoryError:
                for _ in range(1000):
                    pass
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert isinstance(raised.value.__context__, torch.OutOfMemoryError)


def test_variables_that_the_program_took_with_locals_stay() -> None:
    first = 1
    taken = locals()
    failure(empty, 1 << 44)
    assert taken["first"] == first == 1


def test_modes_of_the_program_see_nothing() -> None:
    seen = []

    class Watching(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    held = empty(10 * MIB)
    with Watching():
        failure(torch.empty, 1 << 44, device="cuda")
    # What empty() calls itself, and the traceback's cleaning up.
    assert len(seen) <= 2, seen
    del held


@pytest.mark.parametrize(("requested", "is_reason"), [(1 << 44, False), (300 * MIB, True)])
def test_what_is_kept_is_the_reason_only_if_it_is_much_beside_what_is_missing(requested: int, is_reason: bool) -> None:
    with room(2 * GIB):
        kept = []
        for _ in range(9):
            kept.append(empty(200 * MIB))
        text = failure(empty, requested)
        del kept
    assert ("`kept` keeps them" in " ".join(text.split())) == is_reason, text


def test_memory_taken_past_pytorch_is_told() -> None:
    runtime = cuda_runtime()
    address = ctypes.c_void_p()
    with room(6 * GIB):
        assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(5 * GIB)) == 0
        try:
            text = failure(empty, 2 * GIB)
        finally:
            runtime.cudaFree(address)
    assert "\nMemory outside PyTorch: " in text, text
    assert "nvidia-smi" in line_of("Change first", text) or "outside" in line_of("Change first", text), text


def test_pages_that_small_tensors_share_are_told_with_the_line_that_made_them() -> None:
    collect()
    torch.cuda.empty_cache()
    with leaving(640 * MIB):
        small = [empty(64 << 10) for _ in range(10_000)]
        kept = small[::31]
        del small
        text = failure(empty, 300 * MIB)
        del kept
    assert "\nFragmentation: " in text, text
    assert re.match(r"make the small tensors of \S*", line_of("Change first", text)), text


def test_limit_that_leaves_the_gpu_unused_is_the_first_to_change() -> None:
    collect()
    torch.cuda.empty_cache()
    with limit(GIB):
        text = failure(empty, 2 * GIB)
    assert "set_per_process_memory_fraction" in line_of("Change first", text), text
    assert "raise it by" in line_of("Change first", text)


def test_leak_is_the_verdict_where_memory_of_earlier_epochs_would_be_enough() -> None:
    kept = []
    with leaving(300 * MIB):
        for _ in range(10):
            kept.append(torch.empty(20 * MIB, dtype=torch.uint8, device="cuda"))
            frugal_alloc.epoch_end()
        text = failure(empty, 150 * MIB)
    kept.clear()
    sentence = " ".join(text.splitlines()[1:3])
    assert re.match(
        r"Leak: what \S*test_explanations\.py:\d+ makes stays: .* 20\.00 MiB more with each epoch", sentence
    ), text
    assert "test_explanations.py" in line_of("Change first", text), text


def test_leak_that_was_let_go_since_the_last_epoch_is_no_cause() -> None:
    kept = []
    with leaving(300 * MIB):
        for _ in range(10):
            kept.append(torch.empty(20 * MIB, dtype=torch.uint8, device="cuda"))
            frugal_alloc.epoch_end()
        kept.clear()
        text = failure(empty, 450 * MIB)
    assert "\nToo big: " in text and "Leak" not in text, text
    assert frugal_alloc.report().document["oom"]["verdict"] == "too_big"


# --- In reports.


def test_error_is_in_every_report_after_it_also_where_it_was_caught() -> None:
    failure(empty, 1 << 44)
    document = frugal_alloc.report().document
    error = document["oom"]
    assert (error["verdict"], error["requested_bytes"], error["gpu"]) == ("too_big", 1 << 44, 0)
    assert error["message"].startswith("CUDA out of memory. Tried to allocate 16384.00 GiB. GPU 0 has ")
    frames = [document["frames"][number] for number in error["stack"]]
    assert frames[0]["function"] == error["function"] == "empty"
    assert error["advice"]
    json.dumps(document)


@pytest.fixture
def report_dir() -> Any:
    """Sets the folder for reports, for the test."""
    library = _native.load()
    before = library.setting("report_dir")
    yield lambda folder: library.enable(f"report_dir:{folder}")
    library.enable(f"report_dir:{before or 'off'}")


def test_report_lands_in_its_folder_and_the_last_line_says_where(report_dir: Any, tmp_path: Path) -> None:
    report_dir(tmp_path / "reports")
    for size in (1 << 43, 1 << 44):
        text = failure(empty, size)
    path = Path(re.match(r"Report: (.+)", text.splitlines()[-1])[1])
    assert path.parent == tmp_path / "reports"
    # One error after another, as in a search for a batch size, leaves one report: the latest.
    assert {file.stem for file in path.parent.iterdir()} == {path.stem}
    document = json.loads(path.with_suffix(".json").read_text())
    assert document["oom"]["requested_bytes"] == 1 << 44


def test_report_is_not_written_where_it_is_off(report_dir: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    report_dir("off")
    text = failure(empty, 1 << 44)
    assert "Report:" not in text
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_written_is_replaced_by_a_temporary_one(
    report_dir: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(files, "_private", None)
    file = tmp_path / "file"
    file.write_text("")
    report_dir(file)
    text = failure(empty, 1 << 44)
    path = Path(re.match(r"Report: (.+)", text.splitlines()[-1])[1])
    assert path.exists() and path.parent.parent == tmp_path


# --- What something outside of PyTorch has taken in the course of a run.

# Of 2 GiB, 512 MiB are the CUDA context's. Each of eight epochs takes 64 MiB past PyTorch, together more than the GPU's
# context may, yet less beyond what is usual than is missing in the end.
PROGRAM = """
import ctypes, frugal_alloc, torch
frugal_alloc.enable(report_dir={folder!r}, memory_limit={limit!r})
held = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
runtime = ctypes.CDLL(f"libcudart.so.{{torch.version.cuda.split('.')[0]}}")
addresses = []
for epoch in range(8):
    addresses.append(ctypes.c_void_p())
    assert runtime.cudaMalloc(ctypes.byref(addresses[-1]), ctypes.c_size_t({each})) == 0
    frugal_alloc.epoch_end()
if {lets_go}:
    for address in addresses:
        assert runtime.cudaFree(address) == 0
try:
    free = torch.cuda.mem_get_info()[0] if {limit!r} == "off" else 0
    torch.empty(free + (416 << 20), dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    report(text=str(error))
"""


def verdict_and_text(folder: Path, lets_go: bool, limit: str = "off") -> tuple[str, str]:
    environment = simulated_environment(2048 * MIB)
    program = PROGRAM.format(folder=str(folder), each=64 * MIB, lets_go=lets_go, limit=limit)
    done = run_python(program, **environment)
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text())["oom"]["verdict"], " ".join(done["text"].split())


@simulated_gpu
@pytest.mark.parametrize(("lets_go", "verdict"), [(False, "outside"), (True, "too_big")])
def test_what_has_grown_outside_is_the_verdict_while_it_is_there(tmp_path: Path, lets_go: bool, verdict: str) -> None:
    found, text = verdict_and_text(tmp_path, lets_go)
    assert found == verdict, text
    told = re.search(r"Memory outside PyTorch: 1\.00 GiB of the GPU's 2\.00 GiB belong to others", text)
    assert bool(told) == (not lets_go), text
    assert ("448.00 MiB more than 7 epochs ago" in text) == (not lets_go), text


# 424 MiB of the GPU are free.
@simulated_gpu
def test_what_has_grown_outside_is_not_the_verdict_where_a_limit_refuses(tmp_path: Path) -> None:
    found, text = verdict_and_text(tmp_path, lets_go=False, limit="620MiB")
    assert found == "too_big" and "Memory outside PyTorch" not in text, text
