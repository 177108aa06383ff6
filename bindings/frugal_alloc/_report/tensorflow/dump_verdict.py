"""What the dumps of a TensorFlow log say: why memory ran out, and what holds it."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..._common.messages import format_bytes, format_count
from ..._common.trend import TREND_CONFIDENCE, median_slope, rank_confidence
from ..headline import OOM_NAMES
from . import printed_memory
from .dump import Dump

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


@dataclasses.dataclass(frozen=True)
class Steps:
    """How many steps a log tells; of how many it says the memory, and how that grew with them."""

    count: int
    told: int = 0
    growth: printed_memory.Growth | None = None


def judge(report: dict[str, Any], dumps: list[Dump], steps: Steps, own_frame: int | None) -> None:
    """Fills in the report; `own_frame` is the number of the user's innermost frame in the traceback, if known."""
    last = dumps[-1]
    report["gpus"] = [_gpu(dump) for dump in {dump.gpu: dump for dump in dumps}.values()]
    report["sites"], numbers = _sites(last)
    report["segments"] = _segments(last, numbers)
    report["timeline"] = _timeline(dumps)
    leak = _leak_by_dumps([dump for dump in dumps if dump.gpu == last.gpu]) or (
        _leak_by_growth(last, steps) if steps.growth else _leak_by_steps(last, steps.count)
    )
    if leak:
        report["verdicts"] = [leak | {"gpu": last.gpu}]
    report["oom"] = _out_of_memory(report, last, leak, own_frame)
    if not leak and steps.told < _WATCHED_STEPS and len({dump.step for dump in dumps}) < _DUMPS_FOR_TREND:
        # One dump tells what was held, not since when.
        report["epochs"] |= {"ended": 0, "steps": 0}
        report["notes"].append(_UNKNOWN if steps.count else f"The log has no lines with steps. {_UNKNOWN}")
    if last.limit_bytes:
        report["notes"].append(
            f"TensorFlow's allocator may take {format_bytes(last.limit_bytes)} of the device; what other programs "
            "hold of it is not in the log."
        )


def _gpu(dump: Dump) -> dict[str, Any]:
    return {
        "gpu": dump.gpu,
        "name": dump.allocator,
        "total_bytes": 0,
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
    sites = [
        {"gpu": dump.gpu, "function": _name(size, op), "bytes": size * count, "peak_bytes": size * count}
        | {"blocks": count, "stack": []}
        for (size, op), count in largest
    ]
    numbers: dict[int, int] = {}
    for number, ((size, _), _) in enumerate(largest):
        numbers.setdefault(size, number)
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
        segments.append(
            {"gpu": dump.gpu, "address": start, "bytes": max(size, extent), "mapped": False, "blocks": blocks}
        )
    return segments


def _timeline(dumps: list[Dump]) -> dict[str, Any]:
    points = [
        [dump.gpu, dump.step if dump.step is not None else number, 0, 0, *_sizes(dump)]
        for number, dump in enumerate(dumps)
    ]
    return {"phases": [""], "points": points, "epoch_ends": []}


def _sizes(dump: Dump) -> tuple[int, int, int]:
    in_use = dump.in_use_bytes
    return in_use, max(dump.peak_bytes, in_use), max(dump.pool_bytes, in_use)


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
    _, key, confidence, rate = best
    return _verdict("leak", last, key, rate, confidence, len(by_step))


def _leak_by_growth(dump: Dump, steps: Steps) -> dict[str, Any]:
    """The growth that the log tells, with the chunks that are held for each step as far as they are told apart."""
    assert steps.growth
    sizes = _held_for_each_step(dump, steps.count)
    largest = sorted(sizes, key=lambda key: -sizes[key])
    return printed_memory.verdict(steps.growth) | {
        "function": _names(largest) if largest else "tensors",
        "bytes": steps.growth.grown_bytes,
        # Other chunks grow, too: those of sizes that other tensors have.
        "blocks": 0,
    }


def _leak_by_steps(dump: Dump, steps: int) -> dict[str, Any] | None:
    """Chunks of sizes of which there are one, two, ... for each step that was logged; less sure than several dumps."""
    sizes = _held_for_each_step(dump, steps)
    if not sizes or sum(sizes.values()) < _LEAST_PART * dump.in_use_bytes:
        return None
    key, held = max(sizes.items(), key=lambda item: item[1])
    return _verdict("suspect", dump, key, held / steps, 0.0, steps)


def _held_for_each_step(dump: Dump, steps: int) -> dict[tuple[int, str], int]:
    """The bytes in chunks of each size of which there is a whole number for each step, about."""
    sizes: dict[tuple[int, str], int] = {}
    for (size, op), count in dump.held.items():
        per_step = count / steps if steps else 0
        near = round(per_step)
        if count >= _LEAST_CHUNKS and 1 <= near <= _MOST_CHUNKS_PER_STEP and abs(per_step - near) <= _NEAR_WHOLE:
            sizes[size, op] = size * count
    return sizes


def _verdict(
    kind: str, dump: Dump, key: tuple[int, str], rate: float, confidence: float, epochs: int
) -> dict[str, Any]:
    return {
        "kind": kind,
        "function": _name(*key),
        "bytes": key[0] * dump.held[key],
        "blocks": dump.held[key],
        "bytes_per_epoch": rate,
        "bytes_per_step": rate,
        "epochs": epochs,
        "confidence": confidence,
        "pattern": printed_memory.PATTERN,
        "advice": printed_memory.ADVICE,
    }


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
        "message": "\n".join([_message(dump), *_place(frame), f"Verdict: {OOM_NAMES[verdict]}.", *advice]),
        "limit_name": "what TensorFlow may take" if dump.limit_bytes else "",
        "allocated_bytes": dump.in_use_bytes,
        "reserved_bytes": dump.pool_bytes,
        "limit_bytes": dump.limit_bytes,
        "device_free_bytes": untaken,
        "device_total_bytes": dump.limit_bytes,
        "largest_free_bytes": max(free, default=0),
        "unusable_bytes": sum(size for size in free if size < dump.requested_bytes),
        "fragmentation": {"hard_bytes": sum(size for size in free if size < dump.requested_bytes)},
        "advice": [{"text": text, "file": None, "line": None, "bytes": None} for text in advice],
    }


def _place(frame: dict[str, Any]) -> list[str]:
    return [f"at {frame['file']}:{frame['line']}: {frame['code']}"] if frame else []


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
        many = f"{leak['blocks']:,} " if leak["blocks"] else ""
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
