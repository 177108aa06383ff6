"""Trains a detector on images of many sizes, with PyTorch's allocator and with ours, and compares the memory.

``tools/demo --detector`` runs it. Each training is a process of its own, so that each peak is its own; it runs on the
GPU if PyTorch sees one, else on the simulated GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import rich.console
import rich.table
from frugal_alloc._simulation import simulated_gpu

MIB = 1 << 20
ALLOCATORS = {"native": "PyTorch", "expandable": "expandable segments", "frugal": "frugal_alloc"}
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
SIZES = ((480, 640), (427, 640), (640, 480), (640, 426), (375, 500), (500, 333), (612, 612), (768, 1024), (333, 500))
SHORTER_SIDES = (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)
INTERRUPTED = 130
MEMORY_CALLS = ("malloc", "free", "reserve", "unreserve", "create", "map", "set_access", "unmap", "release")
HAS_GPU = "import torch, torchvision; print(torch.cuda.is_available())"


@dataclass(frozen=True)
class Result:
    """What one training did; bytes, and nanoseconds that are None where nothing models or measures them."""

    allocator: str
    steps: int
    is_out_of_memory: bool
    peak_in_use: int
    peak_reserved: int
    driver_calls: int
    driver_ns: int | None
    seconds: float

    @property
    def waste(self) -> int:
        return self.peak_reserved - self.peak_in_use


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/demo --detector", description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=_number_from(1), default=24, help="training steps with each allocator")
    parser.add_argument("--memory", type=simulated_gpu.parse_size, default=16 << 30, help="of the simulated GPU")
    parser.add_argument("--seed", type=_number_from(0), default=0, help="of weights, images and boxes")
    parser.add_argument("--worker", choices=ALLOCATORS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        if options.worker:
            print(json.dumps(asdict(_train(options))))
            return 0
        return _compare(options)
    except KeyboardInterrupt:
        return INTERRUPTED


def _number_from(least: int):
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) < 1 << 63:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {(1 << 63) - 1}")
        return int(text)

    return parse


# --- The comparison.


def _compare(options: argparse.Namespace) -> int:
    asked = subprocess.run([sys.executable, "-c", HAS_GPU], capture_output=True, text=True)
    if asked.returncode != 0:
        reason = (asked.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"demo: it needs torch and torchvision ({reason}); run tools/setup", file=sys.stderr)
        return 2
    is_simulated = asked.stdout.strip() != "True"
    try:
        environment = simulated_gpu.environment(options.memory) if is_simulated else dict(os.environ)
    except simulated_gpu.SimulationError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    print(f"Training Faster R-CNN (ResNet-50, FPN) for {options.steps} steps, once with each allocator,")
    if is_simulated:
        print(
            f"on a simulated GPU of {options.memory / (1 << 30):.2f} GiB, as PyTorch sees no GPU here. Memory, streams"
        )
        print("and driver calls are modelled there. Values are not computed, so there is no loss to see, and how many")
        print("boxes the network selects is made up, the same for all allocators.")
    else:
        print("on this GPU.")
    # A simulated GPU is each process's own, and time on it is modelled; a real one has one training at a time.
    trainings = len(ALLOCATORS) if is_simulated else 1
    with ThreadPoolExecutor(trainings) as pool:
        done = list(pool.map(lambda allocator: _run_worker(allocator, options, environment), ALLOCATORS))
    for allocator, training in zip(ALLOCATORS, done, strict=True):
        if training.returncode != 0:
            name, status = ALLOCATORS[allocator], training.returncode
            print(f"demo: the training with {name} ended with status {status}", file=sys.stderr)
            return 1
    results = [Result(**json.loads(training.stdout)) for training in done]
    _print_table(results, is_simulated)
    return 0


def _run_worker(
    allocator: str, options: argparse.Namespace, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, __file__, "--worker", allocator, f"--steps={options.steps}", f"--seed={options.seed}"]
    environment = environment | (EXPANDABLE if allocator == "expandable" else {})
    return subprocess.run(line, env=environment, stdout=subprocess.PIPE, text=True)


def _print_table(results: list[Result], is_simulated: bool) -> None:
    def mib(size: int) -> str:
        return f"{size / MIB:,.0f} MiB"

    table = rich.table.Table("", *(rich.table.Column(ALLOCATORS[r.allocator], justify="right") for r in results))
    table.add_row("peak in use", *(mib(r.peak_in_use) for r in results))
    table.add_row("peak reserved", *(mib(r.peak_reserved) for r in results))
    table.add_row("waste", *(f"{mib(r.waste)} ({r.waste / max(r.peak_reserved, 1):.1%})" for r in results))
    table.add_row("driver calls for memory", *(f"{r.driver_calls:,}" for r in results))
    if is_simulated:
        table.add_row("driver time (modelled)", *(f"{(r.driver_ns or 0) / 1e6:,.1f} ms" for r in results))
    else:
        table.add_row("whole training", *(f"{r.seconds:,.1f} s" for r in results))
    if any(r.is_out_of_memory for r in results):
        table.add_row(
            "end", *(f"out of memory in step {r.steps + 1}" if r.is_out_of_memory else "completed" for r in results)
        )
    rich.console.Console().print("", table, "", sep="\n")
    print("In use: what tensors hold. Reserved: what the allocator holds of the GPU. Waste: the peaks' difference.")
    if is_simulated:
        print("Driver time: what driver calls would take by the model in docs/simulated_gpu_inside.md, not measured.")
    print("More: README.md, docs/architecture.md, docs/simulated_gpu.md")


# --- The training, in the process made for it.


def _train(options: argparse.Namespace) -> Result:
    import torch

    if options.worker == "frugal":
        import frugal_alloc

        frugal_alloc.enable()
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    start = time.monotonic()
    step, is_out_of_memory = 0, False
    try:
        for step in _steps(options.steps):
            _show_progress(f"{ALLOCATORS[options.worker]}: step {step} of {options.steps}")
    except torch.OutOfMemoryError:
        is_out_of_memory = True
    _show_progress("")
    stats = torch.cuda.memory_stats()
    return Result(
        options.worker,
        step,
        is_out_of_memory,
        stats["allocated_bytes.all.peak"],
        stats["reserved_bytes.all.peak"],
        *_driver_effort(stats),
        time.monotonic() - start,
    )


def _steps(count: int):
    """Yields the number of each step when it is done."""
    import torch
    import torchvision

    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, min_size=SHORTER_SIDES
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    for step in range(1, count + 1):
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


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
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


if __name__ == "__main__":
    sys.exit(main())
