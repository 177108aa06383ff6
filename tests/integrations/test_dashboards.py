"""What a GPU holds, as TensorBoard scalars and Prometheus gauges."""

from __future__ import annotations

from typing import Any

import pytest
from frugal_alloc.integrations import _figures
from frugal_alloc.integrations.tensorboard import MemoryScalars

FIGURES = {
    gpu: {"allocated_bytes": 10, "peak_bytes": 30 + gpu, "reserved_bytes": 40, "waste_bytes": 30, "outside_bytes": 5}
    for gpu in (0, 1)
}


class Writer:
    def __init__(self) -> None:
        self.scalars: list[tuple[str, int, int]] = []

    def add_scalar(self, name: str, value: int, step: int) -> None:
        self.scalars.append((name, value, step))


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_figures, "by_gpu", lambda: FIGURES)


def test_every_gpu_has_its_scalars(figures: None) -> None:
    writer = Writer()
    MemoryScalars(writer).write(7)
    assert ("memory/gpu0/outside", 5, 7) in writer.scalars
    assert ("memory/gpu1/peak", 31, 7) in writer.scalars
    assert len(writer.scalars) == 8


def test_only_every_so_many_calls_write(figures: None) -> None:
    writer = Writer()
    scalars = MemoryScalars(writer, every=3, prefix="gpu")
    for step in range(7):
        scalars.write(step)
    assert [step for name, _, step in writer.scalars if name == "gpu/gpu0/allocated"] == [0, 3, 6]


def test_nothing_is_written_where_frugal_alloc_is_off() -> None:
    writer = Writer()
    MemoryScalars(writer).write(1)
    assert writer.scalars == []


def test_what_is_no_writer_is_refused() -> None:
    with pytest.raises(TypeError, match="give a SummaryWriter"):
        MemoryScalars("runs/")
    with pytest.raises(ValueError, match="every=0"):
        MemoryScalars(Writer(), every=0)


def test_tensorboard_reads_them(figures: None, tmp_path: Any) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(3):
            MemoryScalars(writer).write(step)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(one.step, one.value) for one in events.Scalars("memory/gpu0/peak")] == [(0, 30), (1, 30), (2, 30)]
