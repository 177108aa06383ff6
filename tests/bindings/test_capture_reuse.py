"""graph_capture_record_stream_reuse: what other streams used within a capture is used again there once it is joined."""

from collections.abc import Iterator

import pytest
import torch
from binding_helpers import MIB, collect, empty

SIZE = 4 * MIB


def let_captures_reuse(value: bool) -> None:
    torch.cuda.memory._set_allocator_settings(f"graph_capture_record_stream_reuse:{value}")


@pytest.fixture
def reuse() -> Iterator[None]:
    let_captures_reuse(True)
    yield
    let_captures_reuse(False)
    collect()


class Capture:
    """A graph that is captured while in use as a context; its memory is of `stream`, to which `sides` are forked."""

    def __init__(self, sides: int) -> None:
        self.stream = torch.cuda.Stream()
        self.sides = [torch.cuda.Stream() for _ in range(sides)]
        self.graph = torch.cuda.CUDAGraph()
        self.results: list[torch.Tensor] = []

    def __enter__(self) -> "Capture":
        torch.cuda.synchronize()
        self.active = torch.cuda.stream(self.stream)
        self.active.__enter__()
        self.graph.capture_begin()
        return self

    def __exit__(self, *_) -> None:
        for side in self.sides:
            self.stream.wait_stream(side)
        self.graph.capture_end()
        self.active.__exit__(None, None, None)

    def read_on(self, side: torch.cuda.Stream, data: torch.Tensor) -> None:
        side.wait_stream(self.stream)
        with torch.cuda.stream(side):
            self.results.append(data.clone())
            data.record_stream(side)

    def given_back(self) -> int:
        """Where the data was that each of the sides reads."""
        data = empty(SIZE).fill_(3)
        for side in self.sides:
            self.read_on(side, data)
        return data.data_ptr()

    def allocate(self, value: int) -> int:
        self.results.append(empty(SIZE).fill_(value))
        return self.results[-1].data_ptr()

    def replayed(self) -> list[int]:
        """What is in each of the results after a replay; -1: not the same everywhere."""
        self.graph.replay()
        torch.cuda.synchronize()
        return [int(result[0]) if bool((result == result[0]).all()) else -1 for result in self.results]


def test_memory_is_used_again_once_the_stream_that_read_it_is_joined(reuse):
    with Capture(sides=1) as capture:
        data = capture.given_back()
        before = capture.allocate(5)
        capture.stream.wait_stream(capture.sides[0])
        after = capture.allocate(6)
    assert before != data
    assert after == data
    assert capture.replayed() == [3, 5, 6]


def test_memory_is_used_again_once_the_last_of_three_streams_is_joined(reuse):
    with Capture(sides=3) as capture:
        data = capture.given_back()
        first, second, third = capture.sides
        capture.stream.wait_stream(first)
        second.wait_stream(third)
        partly = capture.allocate(5)
        capture.stream.wait_stream(second)
        fully = capture.allocate(6)
    assert partly != data
    assert fully == data
    assert capture.replayed() == [3, 3, 3, 5, 6]


def test_without_the_setting_memory_comes_back_when_the_capture_has_ended():
    let_captures_reuse(False)
    with Capture(sides=1) as capture:
        data = capture.given_back()
        capture.stream.wait_stream(capture.sides[0])
        after = capture.allocate(5)
    assert after != data
    assert capture.replayed() == [3, 5]
    stats = torch.cuda.memory_stats()
    assert stats["active_bytes.all.current"] >= stats["allocated_bytes.all.current"]
