"""Trains a detector on images of many sizes, with PyTorch's allocator and with ours, and compares the memory.

``tools/demo --detector`` runs it. Each training is a process of its own, so that each peak is its own; it runs on the
GPU if PyTorch sees one, else on the simulated GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import rich.console
import rich.table
import simulated_gpu

MIB = 1 << 20
PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "stories" / "detection.py"
ALLOCATORS = {"native": "PyTorch", "expandable": "expandable segments", "frugal": "frugal_alloc"}
INTERRUPTED = 130
HAS_GPU = "import torch, torchvision; print(torch.cuda.is_available())"


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/demo --detector", description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=_number_from(1), default=24, help="training steps with each allocator")
    parser.add_argument("--memory", type=simulated_gpu.parse_size, default=16 << 30, help="of the simulated GPU")
    parser.add_argument("--seed", type=_number_from(0), default=0, help="of weights, images and boxes")
    try:
        return _compare(parser.parse_args())
    except KeyboardInterrupt:
        return INTERRUPTED


def _number_from(least: int):
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) < 1 << 63:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {(1 << 63) - 1}")
        return int(text)

    return parse


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
    print(f"Training RetinaNet (ResNet-50, FPN) for {options.steps} steps, once with each allocator,")
    if is_simulated:
        print(
            f"on a simulated GPU of {options.memory / (1 << 30):.2f} GiB, as PyTorch sees no GPU here. Memory, streams"
        )
        print("and driver calls are modelled there. Values are not computed, so there is no loss to see.")
    else:
        print("on this GPU.")
    # A simulated GPU is each process's own, and time on it is modelled; a real one has one training at a time.
    with ThreadPoolExecutor(len(ALLOCATORS) if is_simulated else 1) as pool:
        done = list(pool.map(lambda allocator: _trained(allocator, options, environment), ALLOCATORS))
    for name, run in zip(ALLOCATORS.values(), done, strict=True):
        if isinstance(run, int):
            print(f"demo: the training with {name} ended with status {run}", file=sys.stderr)
            return 1
    _print_table(done, is_simulated)
    return 0


def _trained(allocator: str, options: argparse.Namespace, environment: dict[str, str]) -> dict[str, Any] | int:
    """What the program has written, also if it has run out of memory; else its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "written.json")
        arguments = [f"--steps={options.steps}", f"--seed={options.seed}", "--largest=800", f"--json={file}"]
        line = [sys.executable, PROGRAM, "--allocator", allocator, *arguments]
        done = subprocess.run(line, env=environment, capture_output=True, text=True)
        if file.exists():
            return json.loads(file.read_text(encoding="utf-8"))
        print(done.stderr, end="", file=sys.stderr)
        return done.returncode


def _print_table(runs: list[dict[str, Any]], is_simulated: bool) -> None:
    def mib(size: int) -> str:
        return f"{size / MIB:,.0f} MiB"

    peaks = [[max(one) for one in zip(*run["steps"], strict=True)] for run in runs]
    table = rich.table.Table("", *(rich.table.Column(name, justify="right") for name in ALLOCATORS.values()))
    table.add_row("peak in use", *(mib(used) for used, _ in peaks))
    table.add_row("peak reserved", *(mib(held) for _, held in peaks))
    table.add_row("waste", *(f"{mib(held - used)} ({(held - used) / max(held, 1):.1%})" for used, held in peaks))
    table.add_row("driver calls for memory", *(f"{run['driver_calls']:,}" for run in runs))
    if is_simulated:
        table.add_row("driver time (modelled)", *(f"{run['driver_ns'] / 1e6:,.1f} ms" for run in runs))
    else:
        table.add_row("whole training", *(f"{run['seconds']:,.1f} s" for run in runs))
    if any(run["failed_in"] for run in runs):
        ends = (f"out of memory in step {run['failed_in']}" if run["failed_in"] else "completed" for run in runs)
        table.add_row("end", *ends)
    rich.console.Console().print("", table, "", sep="\n")
    print("In use: what tensors hold. Reserved: what the allocator holds of the GPU. Waste: the peaks' difference.")
    if is_simulated:
        print("Driver time: what driver calls would take by the model in docs/simulated_gpu_inside.md, not measured.")
    print("More: README.md, docs/architecture.md, docs/simulated_gpu.md")


if __name__ == "__main__":
    sys.exit(main())
