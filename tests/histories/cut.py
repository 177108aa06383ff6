"""Cuts the histories that C++ tests play out of the recorded and the generated ones.

    PYTHONPATH=bindings python -m tests.histories.cut

Each of loops/ holds some steps of a training loop, after what was allocated all along (up to `warm_up_end`).

Each of small/ holds what was allocated and freed around the moment at which most memory was live: of that the largest
tensors, their sizes divided by the same number so that PEAK_BYTES are live, and some of the small ones as they were. So
every driver call of a whole history can be made to fail in turn within seconds. The same sources give the same files.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from frugal_alloc._planning.replay import history_files
from frugal_alloc._planning.replay.history import ALLOCATE, EVENT, History

from bench import generators
from bench.generators import recorder

FOLDER = Path(__file__).parent
RECORDED = ("diffusion", "frcnn60", "gpt60", "gpt_decoder")
GENERATED = (
    "fixed_training_4",
    "kv_server",
    "late_streams",
    "many_pools",
    "multi_scale",
    "odd_sizes",
    "optimizer_offload",
    "pinned_survivors",
    "train_evaluate",
    "variable_batches",
)
LARGE, SMALL = 64, 24
PEAK_BYTES = 72 << 20
# Three steps of gpt60, from one moment between two steps to another.
GPT_STEPS = (21_251, 27_531)
# How far the streams are behind the host.
LAG = 6


@dataclasses.dataclass
class Tensor:
    """Numbers of events of the source: `freed` and `ready` are past its end for what is never freed, never late."""

    size: int
    stream: int
    born: int
    freed: int
    late_stream: int = 0
    ready: int = 0


def tensors_of(history: History) -> list[Tensor]:
    tensors: list[Tensor] = []
    rows = EVENT.iter_unpack(history.events)
    for number, (operation, allocation, size, stream, late_stream, ready) in enumerate(rows):
        if operation == ALLOCATE:
            tensors.append(Tensor(size, stream, number, history.event_count))
        else:
            tensor = tensors[allocation]
            tensor.freed, tensor.late_stream, tensor.ready = number, late_stream, ready
    return tensors


def peak_of(tensors: list[Tensor]) -> tuple[int, int]:
    """The most bytes that are live at a time, and the event at which they are."""
    changes = sorted([(t.born, t.size) for t in tensors] + [(t.freed, -t.size) for t in tensors])
    live = most = at = 0
    for event, change in changes:
        live += change
        if live > most:
            most, at = live, event
    return most, at


def around_peak(tensors: list[Tensor]) -> list[Tensor]:
    """The tensors whose life begins or ends near the peak, the largest of them and some of the rest, in order."""
    _, peak = peak_of(tensors)
    by_distance = sorted(tensors, key=lambda t: min(abs(t.born - peak), abs(t.freed - peak)))
    near = by_distance[: 12 * (LARGE + SMALL)]
    by_size = sorted(near, key=lambda t: -t.size)
    large, rest = by_size[:LARGE], by_size[LARGE:]
    step = max(len(rest) // SMALL, 1)
    return sorted(large + rest[::step][:SMALL], key=lambda t: t.born)


def cut(history: History) -> dict:
    tensors = around_peak(tensors_of(history))
    most, _ = peak_of(tensors)
    moments = sorted(
        [(t.born, i, False) for i, t in enumerate(tensors)] + [(t.freed, i, True) for i, t in enumerate(tensors)]
    )
    moments = [(event, i, frees) for event, i, frees in moments if event < history.event_count]
    # What was known by the number of an event of the source is known by the number of the first one kept after it.
    kept = [event for event, _, _ in moments]
    streams: dict[int, int] = {}
    rows = []
    for number, (_, index, frees) in enumerate(moments):
        tensor = tensors[index]
        if not frees:
            size = tensor.size if tensor.size <= 4096 else max(tensor.size * PEAK_BYTES // most, 512)
            rows.append([0, index, size, streams.setdefault(tensor.stream, len(streams))])
        elif tensor.ready:
            ready = sum(event < tensor.ready for event in kept)
            late = streams.setdefault(tensor.late_stream, len(streams))
            rows.append([1, index, late, max(ready, number + 1)])
        else:
            rows.append([1, index])
    return {"frugal_alloc_history": 1, "stream_lag": LAG if len(streams) > 1 else 0, "events": rows}


def loop(history: History, begin: int, end: int) -> dict:
    tensors = tensors_of(history)
    lasting = [t for t in tensors if t.born < begin <= t.freed]
    born = [t for t in tensors if begin <= t.born < end]
    number = {id(t): n for n, t in enumerate(lasting + born)}
    moments = [(t.born, t, False) for t in born] + [(t.freed, t, True) for t in lasting + born if t.freed < end]
    rows = [[0, n, t.size, t.stream] for n, t in enumerate(lasting)]
    for _, tensor, frees in sorted(moments, key=lambda moment: moment[0]):
        rows.append([1, number[id(tensor)]] if frees else [0, number[id(tensor)], tensor.size, tensor.stream])
    head = {"frugal_alloc_history": 1, "warm_up_end": len(lasting), "stream_lag": history.stream_lag}
    return head | {"events": rows}


def save(history: dict, folder: str, name: str) -> None:
    path = FOLDER / folder / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    head = {key: value for key, value in history.items() if key != "events"}
    path.write_text(recorder.rows_as_text(head, history["events"]))
    made = history_files.read(path)
    sys.stderr.write(
        f"{folder}/{name}: {made.event_count} events, {made.stream_count} streams, {made.peak_live_bytes >> 20} MiB\n"
    )


def source(name: str) -> History:
    return generators.generate(name) if name in GENERATED else history_files.read(history_files.find(name))


def main() -> None:
    for name in RECORDED + GENERATED:
        save(cut(source(name)), "small", name)
    steps = history_files.read(history_files.find("gpt60"))
    save(loop(steps, *GPT_STEPS), "loops", "gpt60")
    loops = generators.generate("fixed_training_4")
    save(loop(loops, *loops.turn_ends[1:3]), "loops", "fixed_training_4")


if __name__ == "__main__":
    main()
