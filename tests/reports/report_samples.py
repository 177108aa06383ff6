"""Report documents of runs that could have been, for the tests of what reads and shows them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection
from typing import Any

MIB, GIB = 1 << 20, 1 << 30
TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
HOSTILE = "<script>document.title='owned'</script>\"'><img src=x onerror=alert(1)>"

_TRAIN, _UNET, _MODULE = "/home/ada/train.py", "/home/ada/models/unet.py", f"{TORCH}/nn/modules/module.py"
FRAMES = [
    {"file": file, "line": line, "function": function, "code": code}
    for file, line, function, code in (
        (_TRAIN, 88, "main", "train_epoch(model, loader, optimizer)"),
        (_TRAIN, 42, "train_epoch", "losses.append(loss)"),
        (_TRAIN, 38, "train_epoch", "output = model(images)"),
        (_MODULE, 1776, "_wrapped_call_impl", "return self._call_impl(*args, **kwargs)"),
        (_MODULE, 1787, "_call_impl", "return forward_call(*args, **kwargs)"),
        (_UNET, 57, "forward", "x = self.down(x) + skip"),
        (f"{TORCH}/nn/modules/conv.py", 549, "_conv_forward", "return F.conv2d("),
        (_TRAIN, 40, "train_epoch", "loss.backward()"),
        (_TRAIN, 44, "train_epoch", "optimizer.step()"),
        (f"{TORCH}/optim/adamw.py", 173, "_init_group", 'state["exp_avg"] = torch.zeros_like('),
        (_TRAIN, 20, "main", "model = UNet(64).cuda()"),
    )
]

_FORWARD = [6, 4, 3, 5, 4, 3, 2, 0]


def epochs(ended: int, found_by: str, steps: int, steps_per_epoch: float | None) -> dict[str, Any]:
    """All of which were watched."""
    known = {"ended": ended, "found_by": found_by, "steps": steps, "steps_per_epoch": steps_per_epoch}
    return known | {"seconds_per_epoch": None, "unwatched": 0, "unwatched_steps": 0}


def site(size: int, peak: int, blocks: int, stack: list[int], **rest: Any) -> dict[str, Any]:
    """A site whose line is that of the innermost frame of the user's."""
    own = next(frame for number in stack if "/home/" in (frame := FRAMES[number])["file"])
    place = {"file": own["file"], "line": own["line"], "function": own["function"]}
    return (
        {"gpu": 0, **place, "phase": "train", "node": "", "bytes": size, "blocks": blocks, "peak_bytes": peak}
        | {"stack": stack}
        | rest
    )


def healthy() -> dict[str, Any]:
    """Twelve epochs of training and validation, after which everything is as after the second."""
    return {
        "schema": "frugal_alloc.report",
        "version": 1,
        "run": {
            "command": ["train.py", "--epochs", "12"], "pid": 4711, "rank": None, "world_size": None,
            "python": "3.11.2", "torch": "2.11.0+cu130", "frugal_alloc": "0.1.0",
            "started": "2026-01-31T20:00:00+00:00", "written": "2026-01-31T23:59:59+00:00", "simulated": False,
        },
        "epochs": epochs(12, "data_loader", 1200, 100.0),
        "gpus": [
            {
                "gpu": 0, "name": "NVIDIA RTX 4090", "total_bytes": 24 * GIB, "limit_bytes": 24 * GIB,
                "allocated_bytes": 2800 * MIB, "peak_allocated_bytes": 9 * GIB, "reserved_bytes": 9216 * MIB,
                "peak_reserved_bytes": 9216 * MIB, "awaiting_bytes": 0, "native_reserved_bytes": 0,
                "outside_bytes": 600 * MIB, "native_allocated_bytes": 0, "peak_in_use_bytes": 9 * GIB, "pools": [],
                "private_pools": [], "asleep": [], "asleep_host_bytes": 0,
                "driver_calls": [
                    {"call": "create", "calls": 4608, "total_ns": 133_632_000, "worst_ns": 2_100_000},
                    {"call": "set_access", "calls": 210, "total_ns": 170_496_000, "worst_ns": 41_000_000},
                ],
            }
        ],
        "verdicts": [],
        "suppressed": 0,
        "frames": copy.deepcopy(FRAMES),
        "sites": [
            site(0, 5 * GIB, 0, _FORWARD),
            site(0, 1200 * MIB, 0, [7, 0], node="ConvolutionBackward0"),
            site(1868 * MIB, 1868 * MIB, 120, [9, 8, 0]),
            site(932 * MIB, 932 * MIB, 60, [10]),
        ],
        "timeline": _timeline(leaked_per_epoch=0),
        "segments": _segments(),
        "oom": None,
        "notes": ["Epochs were found by a DataLoader that started over; frugal_alloc.epoch_end() says it for sure."],
    }  # fmt: skip


def _timeline(leaked_per_epoch: int, epochs: int = 12, gpu: int = 0) -> dict[str, Any]:
    points, ends, step = [], [], 0
    for epoch in range(epochs):
        base = (932 * MIB if not epoch else 2800 * MIB) + leaked_per_epoch * epoch
        for number in range(50):
            step += 2
            held = base + leaked_per_epoch * number // 50
            points.append([gpu, step, epoch, 0, held, held + 6300 * MIB - number % 7 * 40 * MIB, base + 6400 * MIB])
        end = base + leaked_per_epoch
        points += [[gpu, step, epoch, 1, end, end + 1500 * MIB, base + 6400 * MIB] for _ in range(8)]
        ends.append([step, epoch])
    return {"phases": ["train", "validation"], "points": points, "epoch_ends": ends}


def _segments() -> list[dict[str, Any]]:
    blocks, offset = [], 0
    for number in range(200):
        for size, state, at in ((9 * MIB, "allocated", 2), (5 * MIB, "allocated", 3), (21 * MIB, "free", None)):
            if number % 11 == 10 and state == "free":
                state, at = "awaiting", None
            blocks.append([offset, size, state, at])
            offset += size
    return [{"gpu": 0, "address": 0x7F00_0000_0000, "bytes": offset, "stream": 0, "mapped": True, "blocks": blocks}]


LEAK = {
    "kind": "leak", "gpu": 0, "file": "/home/ada/train.py", "line": 42, "function": "train_epoch",
    "code": "losses.append(loss)", "phase": "train", "node": "", "bytes": 9 * GIB, "blocks": 21600,
    "bytes_per_epoch": 768.0 * MIB, "bytes_per_step": 7.68 * MIB, "epochs": 12, "confidence": 0.99,
    "pattern": "loss_graph", "advice": "append loss.item() or loss.detach(): the list keeps the graph of every step",
    "held_by": [{"what": "list 'losses'", "file": "/home/ada/train.py", "line": 30, "tensors": 1200, "bytes": 9 * GIB}],
    "stack": [1, 0], "out_of_memory_in": {"epochs": 7.3, "steps": 731.0},
}  # fmt: skip


def leaking() -> dict[str, Any]:
    document = healthy()
    document["verdicts"] = [
        copy.deepcopy(LEAK),
        LEAK | {
            "kind": "cycle", "line": 57, "file": "/home/ada/models/unet.py", "code": "self.skip = (self, x)",
            "function": "forward", "bytes": 300 * MIB, "bytes_per_epoch": 25.0 * MIB, "bytes_per_step": None,
            "held_by": [], "advice": "do not store the module in its own attribute", "out_of_memory_in": None,
            "stack": [5, 4, 3, 2, 0],
        },
    ]  # fmt: skip
    document["sites"].append(site(9 * GIB, 9 * GIB, 21600, [6, 4, 3, 5, 4, 3, 1, 0]))
    document["timeline"] = _timeline(leaked_per_epoch=768 * MIB)
    document["gpus"][0] |= {"allocated_bytes": 12 * GIB, "peak_allocated_bytes": 18 * GIB, "reserved_bytes": 19 * GIB}
    return document


def with_small_leaks(document: dict[str, Any]) -> dict[str, Any]:
    """Some bytes more with each epoch, as an older frugal_alloc tells of them: it does not say what is material."""
    place = {"file": "/home/ada/log.py", "function": "log", "epochs": 12, "out_of_memory_in": None, "stack": []}
    holder = {"what": "list 'kept'", "file": "/home/ada/log.py", "line": 3, "tensors": 36, "bytes": 36 * 512}
    document["verdicts"] += [
        LEAK | place | {
            "line": 12, "code": "kept.append(scale.detach().clone())", "bytes": 36 * 512, "blocks": 36,
            "bytes_per_epoch": 1536.0, "bytes_per_step": 15.36, "held_by": [holder],
            "pattern": "outputs_kept", "advice": "list 'kept' keeps every output: clear it, or keep float(scale)",
        },
        LEAK | place | {
            "kind": "suspect", "line": 19, "code": "self.last = scale", "bytes": 4 * 512, "blocks": 4,
            "bytes_per_epoch": 512.0, "bytes_per_step": 5.12, "held_by": [], "pattern": "unknown", "advice": "",
        },
    ]  # fmt: skip
    return document


def out_of_memory() -> dict[str, Any]:
    """Too large a batch, in the second step."""
    document = healthy()
    document["epochs"] = epochs(0, "none", 1, None)
    document["timeline"] = {
        "phases": [""],
        "points": [[0, 0, 0, 0, 932 * MIB, 14 * GIB, 15 * GIB], [0, 1, 0, 0, 22 * GIB, 22 * GIB, 22 * GIB]],
        "epoch_ends": [],
    }
    document["oom"] = {
        "verdict": "too_big", "gpu": 0, "requested_bytes": 3 * GIB, "missing_bytes": 1900 * MIB,
        "file": "/home/ada/models/unet.py", "line": 57, "function": "forward", "code": "x = self.down(x) + skip",
        "stack": _FORWARD, "message": "CUDA out of memory. Tried to allocate 3.00 GiB.\nThis step needs more.",
        "allocated_bytes": 21 * GIB, "asleep_bytes": 0, "awaiting_bytes": 100 * MIB, "reserved_bytes": 22 * GIB,
        "native_reserved_bytes": 200 * MIB, "limit_bytes": 24 * GIB, "device_free_bytes": 100 * MIB,
        "device_total_bytes": 24 * GIB, "outside_bytes": 1700 * MIB, "largest_free_bytes": 700 * MIB,
        "unusable_bytes": 20 * MIB, "limit_name": "the GPU's memory",
        "tried": [{"what": "native cache", "gained_bytes": 200 * MIB}, {"what": "python garbage", "gained_bytes": 0}],
        "fragmentation": {"hard_bytes": 20 * MIB, "soft_bytes": 0, "stream_bytes": 100 * MIB},
        "advice": [
            {"text": "batch 24 would have fit: 16 and 32 were seen", "file": None, "line": None, "bytes": None},
            {"text": "del outputs before line 88", "file": "/home/ada/train.py", "line": 88, "bytes": 3328 * MIB},
        ],
    }  # fmt: skip
    return document


# Keys whose texts are words of ours, which decide over what is drawn; the reader refuses others.
_FIXED = {"schema", "verdict", "kind", "found_by", "pattern", "started", "written"}


def with_texts(value: Any, change: Callable[[str], str], fixed: Collection[str] = _FIXED, key: str = "") -> Any:
    """A document, or dataclasses, with something in the place of each text that comes from a program."""
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **with_texts(vars(value), change, fixed))
    if isinstance(value, dict):
        return {name: with_texts(inner, change, fixed, name) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(with_texts(inner, change, fixed, key) for inner in value)
    if not isinstance(value, str) or key in fixed or not value or value in ("allocated", "awaiting", "free"):
        return value
    return change(value)


def hostile() -> dict[str, Any]:
    """Markup, control characters and endless words wherever a text can be."""
    document = leaking() | {"oom": out_of_memory()["oom"]}
    return with_texts(
        document, lambda text: f"{HOSTILE}\x1b[31m\u202e\ud800{'W' * 300}{text}", {"schema", "verdict", "kind"}
    )


def huge() -> dict[str, Any]:
    """Thousands of lines, 100,000 blocks in five segments and 2,000 points."""
    document = leaking()
    document["frames"] = [
        {
            "file": f"/home/ada/project/package_{n % 37}/module_{n % 211}.py",
            "line": n % 900,
            "function": f"function_{n}",
        }
        | {"code": f"tensor_{n} = torch.cat([tensor_{n}, other])"}
        for n in range(6000)
    ]
    document["sites"] = [
        site(0, 0, 0, [0]) | {
            "file": document["frames"][n]["file"], "line": n % 900, "function": f"function_{n}",
            "bytes": (n * 7919) % 1000 * MIB, "blocks": n % 50, "peak_bytes": (n * 104729) % 1500 * MIB,
            "stack": [n, (n // 3) % 6000, (n // 20) % 200, n % 3],
        }
        for n in range(5000)
    ]  # fmt: skip
    blocks = [[n * MIB, MIB, ("allocated", "free", "awaiting")[n % 7 % 3], n % 5000] for n in range(20_000)]
    document["segments"] = [
        {"gpu": 0, "address": segment << 40, "bytes": 20_000 * MIB, "stream": 0, "mapped": True, "blocks": blocks}
        for segment in range(5)
    ]
    document["timeline"]["points"] = [
        [0, n, n // 100, n % 2, n * MIB, n * MIB + n % 13 * GIB, 20 * GIB] for n in range(2000)
    ]
    return document


def rank(number: int, world_size: int, document: dict[str, Any]) -> dict[str, Any]:
    document["run"] |= {"rank": number, "world_size": world_size, "pid": 4711 + number}
    return document
