"""Small claims about tracking that need a process with tensors on a GPU: test_checks.py runs each function."""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Iterator

import frugal_alloc
import torch
from frugal_alloc import _native, _tracking
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

MIB = 1 << 20


def tensor(size: int = MIB) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


@contextlib.contextmanager
def raising(kind: type[BaseException], words: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """What is freed within is freed for want of references, not by the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def tracker() -> _tracking.tracker.Tracker:
    _tracking.restart(_native.load())
    return _tracking.current()


def training(loader, steps: int | None = None) -> None:
    model = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (inputs,) in enumerate(loader):
        if number == steps:
            break
        model(inputs.cuda()).sum().backward()
        optimizer.step()


def data(rows: int = 32) -> TensorDataset:
    return TensorDataset(torch.ones(rows, 8))


# no_leaks


def no_leaks_is_silent_where_nothing_is_left():
    with frugal_alloc.no_leaks():
        tensor()


def no_leaks_names_the_line_and_the_bytes():
    kept = []
    with raising(frugal_alloc.LeakError, "checks.py"), frugal_alloc.no_leaks():
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


# track


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
    assert "checks.py" in text
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


# phases and expectations


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


# loaders and optimizers


def loaders_stay_as_they_are():
    loader = DataLoader(data(), batch_size=8)
    assert type(iter(loader)).__name__ == "_SingleProcessDataLoaderIter"
    assert DataLoader.__iter__.__name__ == "__iter__"
    restored = pickle.loads(pickle.dumps(loader))
    assert len(list(restored)) == 4
    assert len(list(copy.deepcopy(loader))) == 4
    assert not [name for name in vars(loader) if "frugal" in name]


class Doubled(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch
            yield batch


def subclass_of_a_loader_is_watched():
    tracking = tracker()
    loader = Doubled(data(), batch_size=8)
    for _ in range(3):
        training(loader)
    assert tracking.epochs.found_by == "data_loader"
    assert (tracking.epochs.ended, tracking.epochs.steps) == (2, 24)


def loaders_end_no_epoch_once_the_program_says_where_they_end():
    tracking = tracker()
    loader = DataLoader(data(), batch_size=8)
    for _ in range(5):
        training(loader)
    frugal_alloc.epoch_end()
    for _ in range(5):
        training(loader)
    assert (tracking.epochs.found_by, tracking.epochs.ended) == ("called", 1)


def memory_of_tensors_is_not_outside():
    # So that the tensor takes memory of the device's.
    torch.cuda.empty_cache()
    before = _tracking.outside.now(0)
    kept = tensor(100 * MIB)
    assert _tracking.outside.now(0) == before
    del kept


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.ones(4, 1, 8).split(1))


def iterable_dataset_is_watched():
    tracking = tracker()
    loader = DataLoader(Stream(), batch_size=None)
    for _ in range(3):
        training(loader)
    assert tracking.epochs.ended == 2


def workers_do_nothing_and_persist():
    tracking = tracker()
    loader = DataLoader(data(), batch_size=8, num_workers=1, persistent_workers=True)
    for _ in range(3):
        training(loader)
    assert tracking.epochs.ended == 2
    assert tracking.failure == ""


def batch_sizes_are_known_with_their_peaks():
    tracking = tracker()
    for size in (16, 8):
        training(DataLoader(data(), batch_size=size))
    assert set(tracking.batches.peaks) == {16, 8}
    assert tracking.batches.peaks[16] >= tracking.batches.peaks[8] > 0


def uncommon_batches_are_understood():
    from frugal_alloc._tracking.batches import size_of

    images = [torch.empty(3, 40, 30), torch.empty(3, 20, 50)]
    assert size_of((images, [{"boxes": torch.empty(7, 4)}]), torch.Tensor) == 2
    assert size_of({"input_ids": torch.empty(5, 9), "labels": torch.empty(5)}, torch.Tensor) == 5
    assert size_of(["a", 3, torch.tensor(1.0)], torch.Tensor) is None
    assert size_of(object(), torch.Tensor) is None


def steps_under_torch_compile_go_on():
    model = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    torch.compile(optimizer.step, backend="eager")()
    assert len(optimizer.state) == 2


def step_in_a_captured_graph_is_left_alone():
    tracking = tracker()
    model = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, capturable=True)
    inputs = torch.ones(2, 8, device="cuda")
    model(inputs).sum().backward()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    graph.replay()
    assert (tracking.steps.count, tracking.failure) == (2, "")


# the report


def report_keeps_nothing_alive():
    values = [tensor() for _ in range(3)]
    references = [weakref.ref(value) for value in values]
    extents = [[(value.data_ptr(), MIB, 0) for value in values]]
    with without_collector():
        evidence = _tracking.holders.find(extents) if hasattr(_tracking, "holders") else None
        frugal_alloc.report()
        del values
        assert [reference() for reference in references] == [None] * 3
    assert evidence is not None


def report_empties_no_variables_of_the_programs():
    one, two = tensor(), {"a": 1}
    mine = locals()
    from frugal_alloc._tracking import holders

    holders.find([[(one.data_ptr(), MIB, 0)]])
    assert mine["two"] is two
    assert "one" in mine


def holders_are_found_wherever_they_are():
    from frugal_alloc._tracking import holders

    class Box:
        def __init__(self):
            self.content = {"deep": [tensor()]}

    box = Box()
    enclosed = tensor()

    def function():
        return enclosed

    def generator():
        inner = tensor()
        yield inner
        yield

    running = generator()
    wanted = {
        "dict 'content' of Box": box.content["deep"][0],
        "tensor 'enclosed'": enclosed,
        "variable 'inner' of generator()": next(running),
    }
    found = holders.find([[(value.data_ptr(), MIB, 0)] for value in wanted.values()])
    del wanted["tensor 'enclosed'"]
    names = [[holder.name.what for holder in evidence.holders] for evidence in found]
    assert names[0] == ["dict 'content' of Box"] or "wanted" in names[0][0], names
    assert function() is enclosed
    del running


def report_is_json_that_others_read():
    kept = [tensor()]
    document = json.loads(frugal_alloc.report().to_json())
    assert (document["schema"], document["version"]) == ("frugal_alloc.report", 1)
    assert document["run"]["pid"] == os.getpid()
    assert document["gpus"][0]["allocated_bytes"] >= MIB
    site = next(site for site in document["sites"] if site["bytes"] == MIB and site["function"] == "tensor")
    assert "tensor" in [document["frames"][number]["function"] for number in site["stack"]]
    assert document["timeline"]["phases"][0] == ""
    blocks = [block for segment in document["segments"] for block in segment["blocks"]]
    assert any(block[2] == "allocated" and block[3] is not None for block in blocks)
    del kept


def report_is_written_whole_or_not_at_all():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        frugal_alloc.report().to_json(path)
        with open(path) as file:
            assert json.load(file)["version"] == 1
        assert os.listdir(folder) == ["report.json"]
        with raising(frugal_alloc.FrugalAllocError, "cannot be written"):
            frugal_alloc.report().to_json(os.path.join(folder, "none", "report.json"))


def report_has_colour_on_a_terminal_alone():
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    report = frugal_alloc.report()
    plain, coloured = io.StringIO(), Terminal()
    report.print(plain)
    report.print(coloured)
    assert plain.getvalue() == str(report)
    assert "\x1b" not in plain.getvalue()
    assert ("\x1b[" in coloured.getvalue()) == ("no leak" in str(report) or bool(report.verdicts))


def end_of_an_epoch_waits_for_another_threads_hook():
    followed = tracker()
    ending = threading.Thread(target=frugal_alloc.epoch_end)
    with followed._lock:
        ending.start()
        assert ending.is_alive() and followed.epochs.ended == 0
    ending.join()
    assert followed.epochs.ended == 1


def failing_hook_does_not_reach_the_program():
    tracking = tracker()

    def fail(*_):
        raise ZeroDivisionError("ours")

    tracking.timeline.note = fail
    training(DataLoader(data(), batch_size=8))
    assert tracking.failure == "ZeroDivisionError: ours"
    assert any("ours" in note for note in frugal_alloc.report().document["notes"])


def main() -> None:
    frugal_alloc.enable()
    results = {}
    for name in sys.argv[1:]:
        gc.collect()
        tracker()
        try:
            globals()[name]()
            results[name] = ""
        except BaseException:
            import traceback

            results[name] = traceback.format_exc()
    print("RESULTS" + json.dumps(results))


if __name__ == "__main__":
    main()
