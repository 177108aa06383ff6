"""The generators of bench/generators."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import pytest
from frugal_alloc._planning.replay import history_files
from frugal_alloc._planning.replay.history import ALLOCATE, EVENT, FREE

from bench import generators
from bench.generators import __main__ as command_line
from bench.generators import phases
from bench.generators.recorder import GIB, Recorder, write

DIGESTS = Path(__file__).with_name("generated.sha256")
# Fixed shapes leave nothing to chance.
SEEDLESS = {"fixed_training", "fixed_training_4"}
SCALE = 0.25

each_generator = pytest.mark.parametrize("name", generators.GENERATORS)


#: One history for all tests that look at it.
default = functools.cache(generators.generate)


@each_generator
def test_default_is_the_history_that_was_committed(name: str) -> None:
    """A change here makes all earlier figures incomparable: write a new generator instead."""
    known = dict(reversed(line.split()) for line in DIGESTS.read_text().splitlines())
    history = default(name)
    assert hashlib.sha256(history.events).hexdigest() == known[name]
    if name in phases.FIXED:
        memory = phases.FIXED[name].memory
        assert history.event_count <= 25_000
        assert 0.9 * memory <= history.peak_live_bytes <= 0.96 * memory
    else:
        assert 20_000 <= history.event_count <= 100_000
        assert 2 * GIB <= history.peak_live_bytes <= 12 * GIB


@each_generator
def test_same_seed_makes_the_same_and_another_seed_another_and_the_file_is_read_as_it(
    name: str, tmp_path: Path
) -> None:
    one, again, other = (generators.generate(name, seed, SCALE) for seed in (1, 1, 2))
    assert one == again
    assert (one.events == other.events) == (name in SEEDLESS)
    write(one, tmp_path / name)
    assert history_files.read(tmp_path / name) == one
    assert one.event_count < default(name).event_count


@pytest.mark.parametrize("name", [name for name in generators.GENERATORS if name.startswith("fixed_")])
def test_loop_makes_the_same_calls_in_every_turn(name: str) -> None:
    history = default(name)
    events = list(EVENT.iter_unpack(history.events))
    assert len(history.turn_ends) == 12
    iterations = [events[begin:end] for begin, end in zip(history.turn_ends, history.turn_ends[1:], strict=False)]
    sizes = {allocation: size for operation, allocation, size, *_ in events if operation == ALLOCATE}

    def shape(iteration: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        return [(operation, sizes[allocation], stream) for operation, allocation, _, stream, *_ in iteration]

    # The first iteration may differ: gradients of none before it, an optimizer's state that is new.
    assert all(shape(one) == shape(iterations[0]) for one in iterations)


class TestRecorder:
    def test_late_memory_is_live_until_the_stream_is_done(self) -> None:
        recorder = Recorder()
        recorder.free_late(recorder.allocate(100), late_stream=1, after=2)
        recorder.allocate(10)
        assert recorder.live_bytes == 110
        recorder.allocate(10)
        assert recorder.live_bytes == 20

    def test_late_stream_is_at_least_as_late_as_all_streams_are(self) -> None:
        recorder = Recorder(stream_lag=3)
        recorder.free_late(recorder.allocate(100), late_stream=1, after=1)
        for _ in range(3):
            recorder.allocate(1)
        (late,) = [e for e in EVENT.iter_unpack(recorder.history("x").events) if e[0] == FREE]
        assert late[4:] == (1, 4)

    def test_history_has_no_more_events_than_can_be_replayed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bench.generators.recorder.MAX_EVENTS", 100)
        with pytest.raises(generators.BadScale, match="more than 100 events"):
            generators.generate("kv_server")


class TestCommandLine:
    def test_lists_the_generators(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert command_line.main([]) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(generators.GENERATORS)

    def test_writes_the_history(self, tmp_path: Path) -> None:
        path = tmp_path / "kv.json"
        arguments = ["kv_server", "--seed", "7", "--scale", "0.1", "--out", str(path)]
        assert command_line.main(arguments) == 0
        made = generators.generate("kv_server", 7, 0.1)
        assert history_files.read(path).events == made.events
