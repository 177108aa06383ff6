"""What tracking hooks into: loaders and optimizers. Runs on the simulated GPU."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable

import frugal_alloc
import pytest
import torch
from frugal_alloc._tracking.timeline import OF_LOADER
from frugal_alloc._tracking.tracker import Tracker
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

pytestmark = pytest.mark.usefixtures("tracking")


def training(loader: DataLoader) -> None:
    model = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (inputs,) in loader:
        model(inputs.cuda()).sum().backward()
        optimizer.step()


def data() -> TensorDataset:
    return TensorDataset(torch.ones(32, 8))


def test_loaders_stay_as_they_are() -> None:
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


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.ones(4, 1, 8).split(1))


LOADERS = {
    "of a subclass": (lambda: Doubled(data(), batch_size=8), 24),
    "of an iterable dataset": (lambda: DataLoader(Stream(), batch_size=None), 12),
    "with workers that persist": (lambda: DataLoader(data(), 8, num_workers=1, persistent_workers=True), 12),
}


@pytest.mark.parametrize(("make", "steps"), LOADERS.values(), ids=LOADERS)
def test_loader_of_any_kind_is_watched(make: Callable[[], DataLoader], steps: int, tracking: Tracker) -> None:
    loader = make()
    for _ in range(3):
        training(loader)
    assert tracking.epochs.found_by == "data_loader"
    assert (tracking.epochs.ended, tracking.epochs.steps, tracking.failure) == (2, steps, "")


def test_batch_sizes_are_known_with_their_peaks(tracking: Tracker) -> None:
    for size in (16, 8):
        training(DataLoader(data(), batch_size=size))
    peaks = {peak.sizes[OF_LOADER].rows: peak.bytes for peak in tracking.batches.peaks}
    assert set(peaks) == {16, 8}
    assert peaks[16] >= peaks[8] > 0


def test_uncommon_batches_are_understood() -> None:
    from frugal_alloc._tracking.timeline import shape_of

    images = [torch.empty(3, 40, 30), torch.empty(3, 20, 50)]
    assert shape_of((images, [{"boxes": torch.empty(7, 4)}]), torch.Tensor) == (2,)
    assert shape_of({"input_ids": torch.empty(5, 9), "labels": torch.empty(5)}, torch.Tensor) == (5, 9)
    assert shape_of(["a", 3, torch.tensor(1.0)], torch.Tensor) is None
    assert shape_of(object(), torch.Tensor) is None


def test_steps_under_torch_compile_go_on() -> None:
    model = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    torch.compile(optimizer.step, backend="eager")()
    assert len(optimizer.state) == 2


def test_step_in_a_captured_graph_is_left_alone(tracking: Tracker) -> None:
    model = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, capturable=True)
    inputs = torch.ones(2, 8, device="cuda")
    model(inputs).sum().backward()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    graph.replay()
    assert (tracking.steps.count, tracking.failure) == (2, "")


def test_end_of_an_epoch_waits_for_another_threads_hook(tracking: Tracker) -> None:
    ending = threading.Thread(target=frugal_alloc.epoch_end)
    with tracking._lock:
        ending.start()
        assert ending.is_alive() and tracking.epochs.ended == 0
    ending.join()
    assert tracking.epochs.ended == 1


def test_failing_hook_does_not_reach_the_program(tracking: Tracker) -> None:

    def fail(*_):
        raise ZeroDivisionError("ours")

    tracking.timeline.note = fail
    training(DataLoader(data(), batch_size=8))
    assert tracking.failure == "ZeroDivisionError: ours"
    assert any("ours" in note for note in frugal_alloc.report().document["notes"])
