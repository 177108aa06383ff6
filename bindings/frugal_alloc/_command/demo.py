"""Trains a detector on images of many sizes, with PyTorch's allocator and with ours, and compares the memory.

``tools/demo`` runs it. Each training is a process of its own, so that each peak is its own; it runs on the GPU if
PyTorch sees one, else on the simulated GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from .._amounts import format_bytes
from .._simulation import simulated_gpu

MIB = 1 << 20
ALLOCATORS = {"native": "PyTorch native", "frugal": "frugal_alloc"}
SIZES = ((480, 640), (427, 640), (640, 480), (640, 426), (375, 500), (500, 333), (612, 612), (768, 1024), (333, 500))
SHORTER_SIDES = (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)
INTERRUPTED = 130
MEMORY_CALLS = ("malloc", "free", "reserve", "unreserve", "create", "map", "set_access", "unmap", "release")


@dataclass(frozen=True)
class Result:
    """What one training did; bytes, and nanoseconds that are None where nothing models or measures them."""

    allocator: str
    steps: int
    out_of_memory: str | None
    peak_in_use: int
    peak_reserved: int
    driver_calls: int
    driver_ns: int | None
    seconds: float

    @property
    def waste(self) -> int:
        return self.peak_reserved - self.peak_in_use


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        if options.worker:
            _work(options)
            return 0
        return _compare(options)
    except KeyboardInterrupt:
        return INTERRUPTED


def _compare(options: argparse.Namespace) -> int:
    try:
        simulated = not _sees_gpu()
        environment = simulated_gpu.environment(options.memory) if simulated else dict(os.environ)
    except simulated_gpu.SimulationError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    print(f"Training Faster R-CNN (ResNet-50, FPN) for {options.steps} steps, once with each allocator,")
    if simulated:
        size = format_bytes(options.memory)
        print(f"on a simulated GPU of {size}, as PyTorch sees no GPU here. Memory, streams and driver calls are")
        print("modelled there. Values are not computed, so there is no loss to see, and how many boxes the network")
        print("selects is made up, the same for both allocators.")
    else:
        print("on this GPU.")
    results = []
    for allocator in ALLOCATORS:
        result = _train_apart(allocator, options, environment)
        if result is None:
            return 1
        results.append(result)
    _print_table(results, simulated)
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__.partition("\n")[0])
    parser.error = _refuse
    parser.add_argument("--steps", type=_count, default=24, help="training steps with each allocator (default 24)")
    parser.add_argument(
        "--memory",
        type=simulated_gpu.parse_size,
        default=16 << 30,
        help="memory of the simulated GPU (default 16GiB); a real GPU has what it has",
    )
    parser.add_argument("--seed", type=_seed, default=0, help="of weights, images and boxes (default 0)")
    parser.add_argument("--worker", choices=ALLOCATORS, help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _refuse(message: str) -> None:
    print(f"demo: {message}; see tools/demo --help", file=sys.stderr)
    sys.exit(2)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return int(text)


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 63):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {(1 << 63) - 1}")
    return int(text)


def _sees_gpu() -> bool:
    code = "import torch, torchvision; raise SystemExit(0 if torch.cuda.is_available() else 3)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise simulated_gpu.SimulationError(f"the demo needs torch and torchvision ({last}); run tools/setup")
    return done.returncode == 0


def _train_apart(allocator: str, options: argparse.Namespace, environment: dict[str, str]) -> Result | None:
    """Trains in a process of its own; None, after its own words on stderr, if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "result.json"
        command = [sys.executable, "-m", "frugal_alloc._command.demo", "--worker", allocator, "--report", str(report)]
        command += ["--steps", str(options.steps), "--seed", str(options.seed)]
        done = subprocess.run(command, env=environment)
        if done.returncode == 0:
            return Result(**json.loads(report.read_text(encoding="utf-8")))
    print(f"demo: the training with {ALLOCATORS[allocator]} ended with status {done.returncode}", file=sys.stderr)
    return None


def _work(options: argparse.Namespace) -> None:
    """The training itself, in the process made for it."""
    import torch

    if options.worker == "frugal":
        import frugal_alloc

        frugal_alloc.enable()
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    start = time.monotonic()
    step, problem = 0, None
    try:
        for step in _train(options.steps):
            _show_progress(options.worker, step, options.steps)
    except torch.cuda.OutOfMemoryError as error:
        problem = str(error).partition(". ")[0]
    _show_progress(options.worker, None, options.steps)
    stats = torch.cuda.memory_stats()
    calls, driver_ns = _driver_effort(stats)
    result = Result(
        allocator=options.worker,
        steps=step,
        out_of_memory=problem,
        peak_in_use=stats["allocated_bytes.all.peak"],
        peak_reserved=stats["reserved_bytes.all.peak"],
        driver_calls=calls,
        driver_ns=driver_ns,
        seconds=time.monotonic() - start,
    )
    options.report.write_text(json.dumps(asdict(result)), encoding="utf-8")


def _train(steps: int):
    """Yields the number of each step when it is done."""
    import torch
    import torchvision

    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, min_size=SHORTER_SIDES
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    for step in range(1, steps + 1):
        images, targets = _batch()
        loss = sum(model(images, targets).values())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        yield step


def _batch() -> tuple[list, list]:
    """Two to four random images of common sizes, each with some boxes."""
    import torch

    images, targets = [], []
    for _ in range(random.randint(2, 4)):
        height, width = random.choice(SIZES)
        boxes = []
        for _ in range(random.randint(1, 20)):
            left, top = random.uniform(0, width - 20), random.uniform(0, height - 20)
            boxes.append((left, top, random.uniform(left + 10, width), random.uniform(top + 10, height)))
        labels = torch.randint(1, 91, (len(boxes),))
        images.append(torch.rand(3, height, width).cuda())
        targets.append({"boxes": torch.tensor(boxes).cuda(), "labels": labels.cuda()})
    return images, targets


def _show_progress(allocator: str, step: int | None, steps: int) -> None:
    if sys.stderr.isatty():
        text = "" if step is None else f"{ALLOCATORS[allocator]}: step {step} of {steps}"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _driver_effort(stats: dict) -> tuple[int, int | None]:
    """Driver calls for memory so far, and the time that all calls took by the simulated GPU's model."""
    library = ctypes.CDLL(None)
    try:
        calls, driver_ns = library.frugal_sim_calls, library.frugal_sim_driver_ns
    except AttributeError:
        return stats["num_device_alloc"] + stats["num_device_free"], None
    calls.restype = driver_ns.restype = ctypes.c_uint64
    calls.argtypes = [ctypes.c_char_p]
    return sum(calls(kind.encode()) for kind in MEMORY_CALLS), driver_ns()


def _rows(results: list[Result], simulated: bool) -> list[tuple[str, ...]]:
    def mib(size: int) -> str:
        return f"{size / MIB:,.0f} MiB"

    rows = [
        ("", *(ALLOCATORS[r.allocator] for r in results)),
        ("peak in use", *(mib(r.peak_in_use) for r in results)),
        ("peak reserved", *(mib(r.peak_reserved) for r in results)),
        ("waste", *(f"{mib(r.waste)} ({r.waste / max(r.peak_reserved, 1):.1%})" for r in results)),
        ("driver calls for memory", *(f"{r.driver_calls:,}" for r in results)),
    ]
    if simulated:
        rows.append(("driver time (modelled)", *(f"{(r.driver_ns or 0) / 1e6:,.1f} ms" for r in results)))
    rows.append(("whole training", *(f"{r.seconds:,.1f} s" for r in results)))
    if any(r.out_of_memory for r in results):
        ends = (f"out of memory in step {r.steps + 1}" if r.out_of_memory else "completed" for r in results)
        rows.append(("end", *ends))
    return rows


def _print_table(results: list[Result], simulated: bool) -> None:
    heading, *rows = _rows(results, simulated)
    print()
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(row[i]) for row in (heading, *rows)) for i in range(len(heading))]
        for row in (heading, *rows):
            print(
                "  ".join(
                    [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
                )
            )
    else:
        table = Table()
        for i, title in enumerate(heading):
            table.add_column(title, justify="left" if i == 0 else "right")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
    print()
    print("In use: what tensors hold. Reserved: what the allocator holds of the GPU. Waste: the peaks' difference.")
    if simulated:
        print("Driver time: what the driver calls would take by the model in docs/simulated_gpu.md, not measured.")
    print("More: README.md, docs/architecture.md, docs/simulated_gpu.md")


if __name__ == "__main__":
    sys.exit(main())
