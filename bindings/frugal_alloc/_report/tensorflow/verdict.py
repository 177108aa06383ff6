"""What a TensorFlow log says of memory: why it ran out, what holds it, and whether it grew with steps.

It says so by dumps of its BFC allocator, and by the memory that a training prints with each step: what
tf.config.experimental.get_memory_info() returns.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import Any

from ..._common.messages import format_bytes, format_count
from ..._common.trend import TREND_CONFIDENCE, median_slope, rank_confidence
from ..diagnoses import DIAGNOSES

_MOST_SITES = 1000
# One dump shows a leak where so many chunks of a size are held, about a whole number for each step, and together most
# of what is in use. Weights and optimizer state do not grow with steps.
_LEAST_CHUNKS = 12
_LEAST_PART = 0.4
_NEAR_WHOLE = 0.15
_MOST_CHUNKS_PER_STEP = 4.5
_MOST_NAMED = 3
_DUMPS_FOR_TREND = 4
_WATCHED_STEPS = 8
_UNKNOWN = (
    "Whether memory grew with steps is not known: print the step and tf.config.experimental.get_memory_info('GPU:0') "
    "with each."
)
_WHOLE_CHUNKS = "set TF_GPU_ALLOCATOR=cuda_malloc_async, which joins free memory, or give all batches one shape"
# Of the steps whose memory was printed: those of warm-up are left out, and so many others show growth for sure.
_WARM_UP_STEPS, _SUSPECT_STEPS, _LEAK_STEPS = 2, 4, 6
_LEAST_GROWTH = 0.02
_ADVICE = (
    "find what keeps a tensor of every step: a list or dict that outputs are added to (append float(loss), not "
    "the tensor), a tf.function that is traced again with each call, summaries or metrics that are never reset"
)

#: Of each step that was printed the bytes in use, and the most that were.
Memory = dict[int, tuple[int, int]]


@dataclasses.dataclass
class Dump:
    """What the allocator said when a request failed."""

    allocator: str
    step: int | None
    requested_bytes: int
    op: str
    limit_bytes: int = 0
    in_use_bytes: int = 0
    peak_bytes: int = 0
    # Of each chunk in use that size occurs so often; with the op where the build of TensorFlow records it.
    held: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    # (bytes, [(address, bytes, in use)])
    regions: list[tuple[int, list[tuple[int, int, bool]]]] = dataclasses.field(default_factory=list)
    # "[16,256,64,64] float", where the error tells.
    tensor: str = ""

    @property
    def gpu(self) -> int:
        found = re.search(r"GPU_(\d{1,4})_", self.allocator, re.IGNORECASE)
        return int(found[1]) if found else 0

    @property
    def pool_bytes(self) -> int:
        return sum(size for size, _ in self.regions)

    @property
    def free_chunks(self) -> list[int]:
        return [size for _, chunks in self.regions for _, size, in_use in chunks if not in_use]


def judge(report: dict[str, Any], dumps: list[Dump], steps: int, memory: Memory, own_frame: int | None) -> None:
    """Fills in the report.

    Args:
        report: An empty one.
        dumps: Those of the log, the latest last.
        steps: How many the log tells of.
        memory: What was printed.
        own_frame: The number of the user's innermost frame in the traceback, if known.
    """
    if dumps:
        _judge_dumps(report, dumps, steps, memory, own_frame)
    if memory:
        _add_printed(report, memory)
    if not dumps and (printed := _printed_growth(memory)):
        report["verdicts"] = [printed | {"gpu": report["gpus"][-1]["gpu"]}]


def _judge_dumps(report: dict[str, Any], dumps: list[Dump], steps: int, memory: Memory, own_frame: int | None) -> None:
    last, printed = dumps[-1], _printed_growth(memory)
    report["gpus"] = [_gpu(dump) for dump in {dump.gpu: dump for dump in dumps}.values()]
    report["sites"], numbers = _sites(last)
    report["segments"] = _segments(last, numbers)
    report["timeline"] = _timeline(dumps)
    leak = _leak_by_dumps([dump for dump in dumps if dump.gpu == last.gpu])
    if not leak:
        leak = printed | _held_by(last, steps) if printed else _leak_by_steps(last, steps)
    if leak:
        report["verdicts"] = [leak | {"gpu": last.gpu}]
    report["oom"] = _out_of_memory(report, last, leak, own_frame)
    if not leak and len(memory) < _WATCHED_STEPS and len({dump.step for dump in dumps}) < _DUMPS_FOR_TREND:
        # One dump tells what was held, not since when.
        report["epochs"] |= {"ended": 0, "steps": 0}
        report["notes"].append(_UNKNOWN if steps else f"The log has no lines with steps. {_UNKNOWN}")
    if last.limit_bytes:
        report["notes"].append(
            f"TensorFlow's allocator may take {format_bytes(last.limit_bytes)} of the device; what other programs "
            "hold of it is not in the log."
        )


def _gpu(dump: Dump) -> dict[str, Any]:
    return {
        "gpu": dump.gpu,
        "name": dump.allocator,
        "limit_bytes": dump.limit_bytes,
        "allocated_bytes": dump.in_use_bytes,
        "peak_allocated_bytes": max(dump.peak_bytes, dump.in_use_bytes),
        "reserved_bytes": dump.pool_bytes,
        "peak_reserved_bytes": dump.pool_bytes,
    }


def _name(size: int, op: str) -> str:
    return f"{f'{size}-byte' if size < 1024 else format_bytes(size)} chunks" + (f" by {op}" if op else "")


def _names(keys: list[tuple[int, str]]) -> str:
    """Of chunks of several sizes; of more than some, how many more."""
    if len(keys) == 1:
        return _name(*keys[0])
    named = [_name(*key).replace(" chunks", "", 1) for key in keys[:_MOST_NAMED]]
    more = len(keys) - len(named)
    named += [format_count(more, "other size")] if more else []
    return f"chunks of {', '.join(named[:-1])} and {named[-1]}"


def _sites(dump: Dump) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """Chunks of one size, and op where it is known, as a line of a program is in other reports; and, of a size, the
    site that holds most of it."""
    largest = sorted(dump.held.items(), key=lambda item: -item[0][0] * item[1])[:_MOST_SITES]
    sites, numbers = [], {}
    for (size, op), count in largest:
        numbers.setdefault(size, len(sites))
        amounts = {"bytes": size * count, "peak_bytes": size * count, "blocks": count}
        sites.append({"gpu": dump.gpu, "function": _name(size, op), **amounts})
    return sites, numbers


def _segments(dump: Dump, numbers: dict[int, int]) -> list[dict[str, Any]]:
    segments = []
    for size, chunks in dump.regions:
        if not chunks:
            continue
        start = chunks[0][0]
        blocks = [
            [address - start, chunk, "allocated" if in_use else "free", numbers.get(chunk) if in_use else None]
            for address, chunk, in_use in chunks
            if address >= start
        ]
        extent = max(offset + chunk for offset, chunk, *_ in blocks)
        place = {"gpu": dump.gpu, "address": start, "bytes": max(size, extent), "mapped": False}
        segments.append(place | {"blocks": blocks})
    return segments


def _timeline(dumps: list[Dump]) -> dict[str, Any]:
    points = []
    for number, dump in enumerate(dumps):
        in_use, step = dump.in_use_bytes, dump.step if dump.step is not None else number
        points.append([dump.gpu, step, 0, 0, in_use, max(dump.peak_bytes, in_use), max(dump.pool_bytes, in_use)])
    return {"phases": [""], "points": points}


def _leak_by_dumps(dumps: list[Dump]) -> dict[str, Any] | None:
    """The size of chunk of which every dump has more than the one before it, if there is one that matters."""
    stepped = [dump for dump in dumps if dump.step is not None]
    if len({dump.step for dump in stepped}) < _DUMPS_FOR_TREND:
        return None
    by_step = list({dump.step: dump for dump in stepped}.values())
    last = by_step[-1]
    best = None
    for key, count in last.held.items():
        counts = [dump.held[key] for dump in by_step]
        confidence = rank_confidence(counts)
        grown = (count - counts[0]) * key[0]
        if confidence >= TREND_CONFIDENCE and grown > (best[0] if best else 0.02 * last.in_use_bytes):
            rate = median_slope([count * key[0] for count in counts], [float(dump.step or 0) for dump in by_step])
            best = (grown, key, confidence, rate)
    if best is None or best[3] <= 0:
        return None
    return _of_chunks("leak", last, *best[1:], len(by_step))


def _held_by(dump: Dump, steps: int) -> dict[str, Any]:
    """Of growth that was printed: the chunks that are held for each step, as far as they are told apart."""
    sizes = _held_for_each_step(dump, steps)
    return {"function": _names(sorted(sizes, key=lambda key: -sizes[key])) if sizes else "tensors"}


def _leak_by_steps(dump: Dump, steps: int) -> dict[str, Any] | None:
    """Chunks of sizes of which there are one, two, ... for each step that was logged; less sure than several dumps."""
    sizes = _held_for_each_step(dump, steps)
    if not sizes or sum(sizes.values()) < _LEAST_PART * dump.in_use_bytes:
        return None
    key, held = max(sizes.items(), key=lambda item: item[1])
    return _of_chunks("suspect", dump, key, 0.0, held / steps, steps)


def _held_for_each_step(dump: Dump, steps: int) -> dict[tuple[int, str], int]:
    """The bytes in chunks of each size of which there is a whole number for each step, about."""
    sizes: dict[tuple[int, str], int] = {}
    for (size, op), count in dump.held.items():
        per_step = count / steps if steps else 0
        near = round(per_step)
        if count >= _LEAST_CHUNKS and 1 <= near <= _MOST_CHUNKS_PER_STEP and abs(per_step - near) <= _NEAR_WHOLE:
            sizes[size, op] = size * count
    return sizes


def _of_chunks(
    kind: str, dump: Dump, key: tuple[int, str], confidence: float, rate: float, steps: int
) -> dict[str, Any]:
    count = dump.held[key]
    return _verdict(kind, _name(*key), key[0] * count, rate, confidence, steps) | {"blocks": count}


def _verdict(kind: str, function: str, size: int, rate: float, confidence: float, steps: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "function": function,
        "bytes": size,
        "bytes_per_epoch": rate,
        "bytes_per_step": rate,
        "epochs": steps,
        "confidence": confidence,
        "pattern": "tensor_of_each_step",
        "advice": _ADVICE,
    }


def _printed_growth(memory: Memory) -> dict[str, Any] | None:
    """The verdict on the memory that was printed; None where it does not grow, or hardly. Of its blocks nothing is
    known: those of other tensors grow, too."""
    steps = list(memory)[_WARM_UP_STEPS:]
    if len(steps) < _SUSPECT_STEPS:
        return None
    held = [memory[step][0] for step in steps]
    confidence = rank_confidence(held)
    rate = median_slope(held, steps)
    grown = held[-1] - held[0]
    if confidence < TREND_CONFIDENCE or rate <= 0 or grown < _LEAST_GROWTH * held[-1]:
        return None
    kind = "leak" if len(steps) >= _LEAK_STEPS else "suspect"
    return _verdict(kind, "TensorFlow", grown, rate, confidence, len(steps))


def _add_printed(report: dict[str, Any], memory: Memory) -> None:
    """Puts the course of memory into the report, and the GPU where no dump has told of one."""
    last, (held, peak) = next(reversed(memory.items()))
    if not report["gpus"]:
        report["gpus"] = [{"gpu": 0, "name": "TensorFlow", "allocated_bytes": held, "peak_allocated_bytes": peak}]
    gpu = report["gpus"][-1]["gpu"]
    points = [[gpu, step, 0, 0, current, most, most] for step, (current, most) in memory.items()]
    after = [point for point in report["timeline"]["points"] if point[1] > last]
    report["timeline"] = {"phases": [""], "points": points + after}


def _out_of_memory(
    report: dict[str, Any], dump: Dump, leak: dict[str, Any] | None, own_frame: int | None
) -> dict[str, Any]:
    free = dump.free_chunks
    # What the allocator had not yet taken of what it may take.
    untaken = max(0, dump.limit_bytes - dump.pool_bytes)
    usable = max([untaken, *free])
    all_free = sum(free) + untaken
    missing = dump.requested_bytes - (usable if all_free >= dump.requested_bytes else all_free)
    # Memory that grew by less than is missing is not why it ran out.
    if leak and leak["bytes"] >= missing:
        verdict = "leak"
    elif all_free >= dump.requested_bytes > usable:
        verdict = "fragmentation"
    else:
        verdict = "too_big"
    frame = report["frames"][own_frame] if own_frame is not None else {}
    advice = _advice(verdict, dump, leak if verdict == "leak" else None)
    place = [f"at {frame['file']}:{frame['line']}: {frame['code']}"] if frame else []
    return {
        "verdict": verdict,
        "gpu": dump.gpu,
        "requested_bytes": dump.requested_bytes,
        "missing_bytes": max(0, missing),
        "file": frame.get("file"),
        "line": frame.get("line"),
        "function": frame.get("function", dump.op),
        "code": frame.get("code", ""),
        "stack": list(range(own_frame or 0, len(report["frames"]))),
        "message": "\n".join([_message(dump), *place, f"Verdict: {DIAGNOSES[verdict].short}.", *advice]),
        "limit_name": "what TensorFlow may take" if dump.limit_bytes else "",
        "allocated_bytes": dump.in_use_bytes,
        "reserved_bytes": dump.pool_bytes,
        "limit_bytes": dump.limit_bytes,
        "device_free_bytes": untaken,
        "device_total_bytes": dump.limit_bytes,
        "largest_free_bytes": max(free, default=0),
        "unusable_bytes": sum(size for size in free if size < dump.requested_bytes),
        "fragmentation": {"hard_bytes": sum(size for size in free if size < dump.requested_bytes)},
        "advice": [{"text": text} for text in advice],
    }


def _message(dump: Dump) -> str:
    for_what = f" for a tensor {dump.tensor}" if dump.tensor else ""
    by = f", requested by op {dump.op}" if dump.op else ""
    return (
        f"{dump.allocator or 'The BFC allocator'} ran out of memory trying to allocate "
        f"{format_bytes(dump.requested_bytes)}{for_what}{by}."
    )


def _advice(verdict: str, dump: Dump, leak: dict[str, Any] | None) -> list[str]:
    if leak:
        rate = format_bytes(leak["bytes_per_step"])
        many = f"{leak['blocks']:,} " if leak.get("blocks") else ""
        return [f"mend the leak: {many}{leak['function']} are held, {rate} more with each step"]
    if verdict == "fragmentation":
        return [_WHOLE_CHUNKS]
    (size, op), count = max(dump.held.items(), key=lambda item: item[0][0] * item[1], default=((0, ""), 0))
    if dump.limit_bytes and dump.requested_bytes > dump.limit_bytes:
        return ["this one tensor is larger than all that TensorFlow may take: a smaller batch, or smaller images"]
    largest = f": the most is {format_count(count, 'chunk')} of {format_bytes(size)}" + (f" by {op}" if op else "")
    return [
        "a smaller batch or smaller images, and mixed precision: activations shrink with them",
        f"look first at what is largest{largest if count else ''}",
    ]
