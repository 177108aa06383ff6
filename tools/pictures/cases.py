"""What documents show of runs: the table SHOWN has by name which runs they are, what is told of them, what is drawn.

What is told has a key for each figure, table or quotation, and "said" for the picture.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import ROOT, drawing, fragmentation, runs
from .drawing import Chart, Line, Mark
from .pages import excerpt, gib, mib, most, refused, rows, word
from .runs import Runs

GIB = 1 << 30
ALLOCATORS = {"native": "PyTorch", "expandable": "expandable segments", "frugal": "frugal_alloc"}
Data = dict[str, Any]
Told = dict[str, str]


class Shown(NamedTuple):
    """`record` makes what `told` and `chart` are given; without it they are given nothing."""

    told: Callable[..., Told]
    record: Callable[[], Data] | None = None
    chart: Callable[[Data], Chart] | None = None


# --- Each case of docs/cases.md.

_GROUPED = "--grouped --largest 704"
_ORDERS, _BATCHES = ("0", "1", "2", "3"), (2, 3, 4)
_DETECTION = {
    **{f"mixed_{one}": f"--allocator {one} --seed 3" for one in ALLOCATORS},
    **{one: f"--allocator {one} {_GROUPED} --seed 3" for one in ALLOCATORS},
    **{f"native_seed_{order}": f"--allocator native {_GROUPED} --seed {order}" for order in _ORDERS[:3]},
}
_BATCHES_TRIED = {
    (one, order, batch): f"--allocator {one} {_GROUPED} --seed {order} --batch {batch}"
    for one, order, batch in itertools.product(ALLOCATORS, _ORDERS, _BATCHES)
}


def _train_detector() -> Data:
    """Of each run the memory, which no other run has otherwise; and by allocator, the largest batch in each order."""

    def ran(named: dict[Any, str], *kept: str) -> Data:
        return Runs("detection.py", {"--gpu 'RTX 3070'": named}, lambda run: {key: run[key] for key in kept}).record()

    tried = ran(_BATCHES_TRIED, "failed_in")
    largest = {
        one: [max(batch for batch in _BATCHES if not tried[one, order, batch]["failed_in"]) for order in _ORDERS]
        for one in ALLOCATORS
    }
    return {**ran(_DETECTION, "failed_in", "gpu_bytes", "error", "steps"), "largest_batch": largest}


def _detection(data: Data) -> Told:
    failures = [data["native" if order == "3" else f"native_seed_{order}"]["failed_in"] for order in _ORDERS]
    return {
        "error": excerpt(data["mixed_frugal"]["error"], "Change first"),
        "runs": rows(*(_trained(data, one) for one in ALLOCATORS)),
        **refused(data["native"]),
        "gpu": gib(data["native"]["gpu_bytes"]),
        "needs": gib(most(data["frugal"])[0]),
        "orders_failed": word(sum(map(bool, failures))),
        "orders": word(len(failures)),
    }


def _trained(data: Data, name: str) -> tuple[str, ...]:
    run, batches = data[name], data["largest_batch"][name]
    end = f"out of memory in step {run['failed_in']}" if run["failed_in"] else f"completes {len(run['steps'])} steps"
    return ALLOCATORS[name], f"{gib(most(run)[1])} GiB", end, ", ".join(map(str, batches))


_LEAK = {"leaking": "--allocator frugal", "healed": "--allocator frugal --healed"} | {
    one: f"--allocator {one}" for one in ("native", "expandable")
}


def _of_the_leak(run: Data) -> Data:
    """Without what the report says of the GPU, which has times of the driver in it."""
    report = run.get("report")
    return run | {"report": report.partition("\n\nGPU 0")[0]} if report else run


def _leak(data: Data) -> Told:
    epoch, _, left = _found(data)
    failed, healed = data["leaking"]["failed_in"], len(data["healed"]["forecasts"])
    return {
        "said": f"Memory rises with each epoch. After epoch {epoch} the report tells the leak, and that memory lasts "
        f"for {left:.1f} more epochs. It runs out in epoch {failed}. With loss.item() the same training stays flat for "
        f"{healed} epochs.",
        # Without the figures of the GPU.
        "report": data["leaking"]["report"],
        "failed": " or ".join(sorted({str(data[run]["failed_in"]) for run in _LEAK if run != "healed"})),
        "healed_used": mib(max(peak for _, peak in data["healed"]["points"])),
        "healed_epochs": str(healed),
        "found": str(epoch),
        "before": str(failed - epoch),
    }


def _found(data: Data) -> list[Any]:
    """The first end of an epoch at which the report says that there is a leak: (epoch, verdict, epochs left)."""
    return next(one for one in data["leaking"]["forecasts"] if one[1] == "leak")


def _leak_chart(data: Data) -> Chart:
    leaking = list(_by_epoch(data["leaking"]))
    epoch, _, left = _found(data)
    there = next(value for place, value in reversed(leaking) if place <= epoch)
    return Chart(
        "A leak: losses are kept with the graphs behind them",
        x_name="epochs",
        unit="MiB",
        lines=(
            Line("keeps loss.item()", "good", list(_by_epoch(data["healed"]))),
            Line("keeps each loss", "bad", leaking),
        ),
        level=("memory that the program can have", data["leaking"]["available_bytes"]),
        marks=(
            Mark(f"leak told, {left:.1f} epochs left", "bad", "o", epoch, there),
            Mark("out of memory", "bad", "x", *leaking[-1]),
        ),
    )


def _by_epoch(run: Data) -> Iterator[tuple[float, int]]:
    """Points of an epoch at equal distances; one of which the end was not reached is as long as the one before."""
    count = 1
    for epoch, group in itertools.groupby(run["points"], key=lambda point: point[0]):
        peaks = [peak for _, peak in group]
        if epoch + 1 != run["failed_in"]:
            count = len(peaks)
        for place, peak in enumerate(peaks):
            yield epoch + place / count, peak
    if run["failed_in"] is None:
        yield len(run["forecasts"]), peaks[-1]


_SERVING = {
    f"{one}_{budget}": f"--allocator {one} --budget {budget}"
    for one, budget in itertools.product(ALLOCATORS, ("0.88", "0.92", "0.96"))
} | {"frugal_0.98": "--allocator frugal --budget 0.98"}


def _serving(data: Data) -> Told:
    served = [name for name in _SERVING if not data[name]["error"]]
    largest = {one: max(name for name in served if name.startswith(one)) for one in ALLOCATORS}
    return {
        "runs": rows(*(_served(data[name], *name.split("_")) for name in largest.values())),
        **refused(data["native_0.92"]),
        "available": gib(data["frugal_0.88"]["available_bytes"]),
    }


def _served(run: Data, allocator: str, budget: str) -> tuple[str, ...]:
    return ALLOCATORS[allocator], budget, f"{run['most_tokens']:,}", f"{gib(most(run)[1])} GiB"


# What the busy server leaves to the training, in MiB.
TENANTS_LIMIT = 3328
_TENANTS = {f"{one}_keeps": f"--allocator {one}" for one in ALLOCATORS} | {
    **{f"{one}_gives_back": f"--allocator {one} --give-back" for one in ALLOCATORS},
    "frugal_idle_release": "--allocator frugal --idle-release",
    "frugal_limit": f"--allocator frugal --limit {TENANTS_LIMIT}",
}


def _tenants(data: Data) -> Told:
    def largest(run: str, action: str, place: int) -> int:
        """In use (2) or held (4) in turns of that kind."""
        return max(turn[place] for turn in data[run]["turns"] if turn[1] == action)

    def held(run: str) -> list[str]:
        """In evaluation by the training, by the busy server, and by both at most."""
        sizes = (largest(run, "evaluate", 4), largest(run, "busy", 4), _held_by_both(data[run]))
        return [f"{gib(size)} GiB" for size in sizes]

    return {
        "runs": rows(*((ALLOCATORS[one], *held(f"{one}_gives_back")) for one in ALLOCATORS)),
        "holds": gib(largest("frugal_keeps", "evaluate", 4)),
        "takes": gib(largest("frugal_keeps", "busy", 4)),
        "evaluate": gib(largest("frugal_gives_back", "evaluate", 2)),
        "busy": gib(largest("frugal_gives_back", "busy", 2)),
    }


def _held_by_both(run: Data) -> int:
    """At most, at the end of a turn; one of them waits meanwhile."""
    found, held = 0, {}
    for tenant, *_, size in run["turns"]:
        held[tenant] = size
        found = max(found, sum(held.values()))
    return found


_BOTH = "PYTORCH_ALLOC_CONF=max_split_size_mb:128,expandable_segments:True"
_RESERVED = {
    "both_options": f"{_BOTH} --allocator native",
    "native": "--allocator native",
    "max_split": "PYTORCH_ALLOC_CONF=max_split_size_mb:128 --allocator native",
    "expandable": "PYTORCH_ALLOC_CONF=expandable_segments:True --allocator native",
    "frugal": "--allocator frugal",
    "frugal_both_options": f"{_BOTH} --allocator frugal",
}


def _reserved(data: Data) -> Told:
    both = data["both_options"]["requests"]
    full = _first_retry(both)
    held = {run: mib(data[run]["requests"][100][1]) for run in _RESERVED}
    others = sorted(held[run] for run in ("native", "max_split", "expandable"))
    return {
        "said": f"With both of PyTorch's settings, what is held grows to {mib(both[full - 1][1])} MiB by "
        f"request {full - 1}. Then the GPU is full, and free memory is given back. With one of the settings or none, "
        f"{others[-1]} MiB are held after 100 requests, with frugal_alloc {held['frugal']} MiB.",
        "in_tensors": mib(both[100][0]),
        "full": str(full),
        "after": mib(both[full][1]),
        "both": held["both_options"],
        "least": others[0],
        "most": others[-1],
        "ours": held["frugal"],
    }


def _first_retry(requests: list[list[int]]) -> int:
    """The first request for which the allocator had to give free memory back."""
    return next(number for number, (_, _, retries) in enumerate(requests) if retries)


def _reserved_chart(data: Data) -> Chart:
    both, ours = data["both_options"]["requests"], data["frugal"]["requests"]
    last = _first_retry(both) - 1
    return Chart(
        "Memory held on a GPU of 16 GiB, of which each request keeps 2 MiB",
        x_name="requests",
        unit="GiB",
        lines=(
            Line("tensors", "live", [(number, used) for number, (used, _, _) in enumerate(ours)]),
            Line("PyTorch, both options", "native", [(number, held) for number, (_, held, _) in enumerate(both)]),
            Line(
                "frugal_alloc; PyTorch with one option or none",
                "ours",
                [(number, held) for number, (_, held, _) in enumerate(ours)],
            ),
        ),
        level=("the GPU's memory", 16 * GIB),
        marks=(Mark("full", "native", "o", last, both[last][1]),),
    )


# Roomy: an H200's memory; tight: an H100's.
_ROOMY, _TIGHT = "--memory 141GiB", "--memory 80GiB"
_SIDE_STREAM = {
    _ROOMY: {f"{one}_side": f"--allocator {one}" for one in ALLOCATORS}
    | {f"{one}_current": f"--allocator {one} --current-stream" for one in ALLOCATORS}
    | {"expandable_emptied": "--allocator expandable --empty-cache"},
    _TIGHT: {f"{one}_tight": f"--allocator {one}" for one in ALLOCATORS},
}


def _side_stream(data: Data) -> Told:
    def amounts(one: str) -> list[str]:
        side, current, tight = (data[f"{one}_{run}"]["reserved"] for run in ("side", "current", "tight"))
        return [f"{mib(size)} MiB" for size in (side, current, side - current, tight)]

    return {
        "runs": rows(*((name, *amounts(one)) for one, name in ALLOCATORS.items())),
        "needs": mib(data["frugal_side"]["allocated"]),
        "emptied": mib(data["expandable_emptied"]["reserved"]),
    }


_FRESH_STREAMS = {one: f"--allocator {one}" for one in ALLOCATORS} | {"same": "--allocator native --same-streams"}


def _fresh_streams(data: Data) -> Told:
    """After as many transfers as PyTorch's streams last for."""
    return {run: mib(data[run]["held"][15]) for run in _FRESH_STREAMS}


def _embedding_stash(data: Data) -> Told:
    return {"needs": gib(most(data["frugal"])[0]), **{one: gib(most(data[one])[1]) for one in ALLOCATORS}}


_WAYS = {
    "saver": "segments, as torch_memory_saver has it",
    "vllm": "segments, as vLLM has it",
    "frugal": "frugal_alloc",
}
_TURNS = {
    "--memory 24GiB --node turns-{pid}": {
        f"{way}_{processes}": f"--turns 2 --way {way} --processes {processes}"
        for way, processes in itertools.product(("keep", *_WAYS), (1, 2))
    },
    "--memory 48GiB --node turns-{pid}": {"keep_roomy": "--turns 2 --way keep"},
}
# Bytes that the simulated GPU's model copies in a nanosecond between host and GPU: docs/simulated_gpu_inside.md.
_COPIED_IN_NS = 25


def _last_turn(run: Data) -> Data:
    """What failed, the most memory in use, and the sleeps and wakes of the last turn."""
    events = run["events"]
    last = max((at for at, event in enumerate(events) if event["action"] == "generate"), default=len(events))
    turn = [event for event in events[last:] if event["action"] in ("sleep", "wake")]
    return {"error": run["error"], "most": max(event["most"] for event in events), "turn": turn}


def _turns(data: Data) -> Told:
    def of(run: str, action: str, figure: str) -> int:
        """The sum of a turn's sleeps or wakes."""
        return sum(event[figure] for event in data[run]["turn"] if event["action"] == action)

    def row(way: str, name: str) -> tuple[str, ...]:
        run = f"{way}_1"
        largest = [
            "out of memory" if one["error"] else f"{gib(one['most'])} GiB" for one in (data[run], data[f"{way}_2"])
        ]
        calls = " / ".join(f"{of(run, action, 'calls'):,}" for action in ("sleep", "wake"))
        took = (of(run, one, "driver_ns") + of(run, one, "copied") / _COPIED_IN_NS for one in ("sleep", "wake"))
        times = " / ".join(f"{nanoseconds / 1e9:.2f} s" for nanoseconds in took)
        host = max(event["host"] for event in data[run]["turn"] if event["action"] == "sleep")
        return name, *largest, f"{gib(of(run, 'sleep', 'copied'))} GiB", calls, times, f"{gib(host)} GiB"

    return {
        "live": gib(of("frugal_1", "sleep", "live")),
        "dropped": gib(of("frugal_1", "sleep", "dropped")),
        "needs": gib(data["keep_roomy"]["most"]),
        "runs": rows(*itertools.starmap(row, _WAYS.items())),
    }


def _read_tensorflow() -> Data:
    """Reads the logs as `frugal-alloc report` does. Of a step (step, bytes between steps, most bytes so far)."""
    from frugal_alloc._command import report_files
    from frugal_alloc._report import text

    folder = ROOT / "tests" / "reports" / "tensorflow"
    growing, healed = (report_files.read(folder / name) for name in ("detector.log.gz", "detector_healed.log.gz"))
    # What is said of the leak.
    said = re.search(r"^frugal_alloc: leak.*?(?=\n\nGPU 0)", text.render(growing), re.MULTILINE | re.DOTALL)[0]
    steps = [
        [[step, held, highest] for _, step, _, _, held, highest, _ in report["timeline"]["points"]]
        for report in (growing, healed)
    ]
    return {
        "limit_bytes": growing["oom"]["limit_bytes"],
        "bytes_per_step": growing["verdicts"][0]["bytes_per_step"],
        "report": said,
        **dict(zip(("growing", "healed"), steps, strict=True)),
    }


def _tensorflow(data: Data) -> Told:
    first, last, healed = data["growing"][0], data["growing"][-1], data["healed"][-1]
    return {
        "said": f"The most memory in use rises with each step from {mib(first[2])} MiB to {mib(last[2])} MiB. "
        f"TensorFlow may take {mib(data['limit_bytes'])} MiB, and memory runs out in step {last[0] + 1}. The healed "
        f"training needs {mib(healed[2])} MiB after {healed[0]} steps.",
        "report": data["report"],
        "rate": f"{data['bytes_per_step'] / (1 << 20):.2f}",
        "failed": str(last[0] + 1),
    }


def _tensorflow_chart(data: Data) -> Chart:
    growing, limit = data["growing"], data["limit_bytes"]
    return Chart(
        "Most memory in use so far: an SSD of TensorFlow's Object Detection API",
        x_name="training steps",
        unit="MiB",
        lines=(
            Line("in use between steps", "live", [(step, held) for step, held, _ in growing]),
            Line("keeps boxes on the host", "good", [(step, highest) for step, _, highest in data["healed"]]),
            Line("keeps predictions", "bad", [(step, highest) for step, _, highest in growing]),
        ),
        level=("what TensorFlow may take", limit),
        marks=(Mark("out of memory", "bad", "x", growing[-1][0] + 1, limit),),
    )


def _out_of_memory() -> Told:
    """The error of the example report."""
    report = (ROOT / "docs" / "reports" / "examples" / "out_of_memory.json").read_text(encoding="utf-8")
    return {"error": json.loads(report)["oom"]["message"].rstrip()}


_EACH = {one: f"--allocator {one}" for one in ALLOCATORS}
SHOWN = {
    "fragmentation": Shown(fragmentation.told),
    "out_of_memory": Shown(_out_of_memory),
    "detection": Shown(_detection, _train_detector),
    "leak_growth": Shown(_leak, Runs("leak.py", {"--memory 1536MiB": _LEAK}, _of_the_leak).record, _leak_chart),
    "serving": Shown(_serving, Runs("serving.py", {"--memory 4GiB": _SERVING}).record),
    "tenants": Shown(_tenants, Runs("tenants.py", {"--memory 8GiB --node tenants-{pid}": _TENANTS}).record),
    "reserved_growth": Shown(
        _reserved, Runs("fragmentation.py", {"--memory 16GiB": _RESERVED}).record, _reserved_chart
    ),
    "side_stream": Shown(_side_stream, Runs("side_stream.py", _SIDE_STREAM).record),
    "fresh_streams": Shown(_fresh_streams, Runs("fresh_streams.py", {_TIGHT: _FRESH_STREAMS}).record),
    "embedding_stash": Shown(_embedding_stash, Runs("embedding_stash.py", {"--memory 96GiB": _EACH}).record),
    "turns": Shown(_turns, Runs("turns.py", _TURNS, _last_turn).record),
    "tensorflow_growth": Shown(_tensorflow, _read_tensorflow, _tensorflow_chart),
}
PICTURES = ("fragmentation", *(name for name, one in SHOWN.items() if one.chart))


def file_of(picture: str) -> pathlib.Path:
    return runs.FOLDER / f"{picture}.svg"


def drawn(picture: str) -> str:
    """The text of its file."""
    shown = SHOWN[picture]
    if shown.chart is None:
        return fragmentation.picture()
    data = runs.read(picture)
    return drawing.chart(shown.chart(data), shown.told(data)["said"])


def told() -> dict[str, Told]:
    """By name, what documents say of it."""
    return {name: one.told(*([runs.read(name)] if one.record else [])) for name, one in SHOWN.items()}
