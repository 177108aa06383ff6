"""Trains models whose shapes vary with several allocators, and compares speed and memory.

Models are GPT-2 small, and torchvision's resnet50 and fasterrcnn_resnet50_fpn, with random weights and data. Every
training is a process of its own. With ample memory, and with little more than ours needs, speeds are measured side by
side. Where there is no GPU, it runs on the simulated one, for allocation only.

From the root of a checkout: ``.venv/bin/python -m bench.train_bench``.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from frugal_alloc._command import progress
from frugal_alloc._common.arguments import Parser, refuse
from frugal_alloc._common.messages import format_bytes
from frugal_alloc._simulation import simulated_gpu

from . import output_file, provenance
from .arguments import among, count, minutes, seed
from .training import allocators, results
from .training.runs import AMPLE, ENDING_SIGNALS, NoTorch, Trainer, carry_out

WORKLOADS = ("gpt2", "resnet50", "fasterrcnn")
WITHOUT_TORCHVISION = ("gpt2",)
DEFAULT_SIMULATED_MEMORY = 24 << 30
FAILED = 1


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        if options.json:
            output_file.check(options.json)
        return _measure(options)
    except (simulated_gpu.SimulationError, NoTorch, output_file.NotWritable) as error:
        return refuse("train_bench", error)


def _end(number: int, _: object) -> NoReturn:
    print("train_bench: interrupted, nothing was written", file=sys.stderr)
    sys.exit(128 + number)


def _measure(options: argparse.Namespace) -> int:
    settings = {"seed": options.seed, "warm_up": options.warm_up, "steps": options.steps, "quick": options.quick}
    trainer = Trainer(options.simulate, settings)
    # By Ctrl-C or from outside: what is running is ended, and nothing is written.
    for number in ENDING_SIGNALS:
        signal.signal(number, _end)
    found = trainer.describe()
    simulated = options.simulate is not None
    if found["gpu"] is None and not simulated:
        simulated, trainer = True, Trainer(DEFAULT_SIMULATED_MEMORY, settings)
        found = trainer.describe()
    if simulated:
        size = format_bytes(options.simulate or DEFAULT_SIMULATED_MEMORY)
        forced = "as asked for" if options.simulate else "as PyTorch sees no GPU here"
        print(f"On a simulated GPU of {size}, {forced}: for allocation only, no speed is measured.", flush=True)
    names, left_out = _available(options.allocators, simulated)
    # Where nothing depends on time, a second repeat would say the same.
    repeats = options.repeats or (1 if simulated else 5)
    models, without = _possible(options.models, found["torchvision"])
    left_out += without
    sizings = options.capacities != [AMPLE]
    trainings = len(models) * (sizings + len(names) * len(options.capacities) * repeats)
    with progress.progress("train_bench", trainings) as advance:
        end = time.monotonic() + options.minutes * 60
        runs, missing = carry_out(trainer, models, names, options.capacities, repeats, advance, end)
    setup = results.Setup(
        commit=provenance.commit(),
        machine=provenance.machine(),
        versions={name: found[name] for name in ("torch", "torchvision", "cuda")}
        | {"driver": None if simulated else provenance.gpu_driver(), "rmm": allocators.rmm_version()},
        gpu="simulated" if simulated else found["gpu"],
        gpu_memory_bytes=found["memory_bytes"],
        simulated=simulated,
        repeats=repeats,
        left_out=left_out + missing,
        **settings,
    )
    print(results.text(setup, runs))
    if options.json:
        output_file.write(options.json, json.dumps(results.as_json(setup, runs), indent=1) + "\n")
    return FAILED if any(run.outcome == "failed" for run in runs) else 0


def _available(names: list[str], simulated: bool) -> tuple[list[str], list[str]]:
    """The allocators that can be had here, and a sentence for each that cannot."""
    why = {}
    if simulated:
        why["async"] = "the simulated GPU has no pool behind it, so its figures would say nothing"
        why["rmm"] = "it has CUDA's runtime linked in, which the simulated GPU does not replace"
    elif allocators.rmm_version() is None:
        why["rmm"] = "it is not installed (pip install rmm-cu13)"
    left_out = [f"{allocators.TITLES[name]} was left out: {why[name]}." for name in names if name in why]
    return [name for name in names if name not in why], left_out


def _possible(models: list[str], torchvision: str | None) -> tuple[list[str], list[str]]:
    """The models that can be had here, and a sentence for each that cannot."""
    lacking = [model for model in models if torchvision is None and model not in WITHOUT_TORCHVISION]
    left_out = [f"{model} was left out: torchvision is not installed." for model in lacking]
    return [model for model in models if model not in lacking], left_out


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser("train_bench", description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--models", type=among(WORKLOADS), default=list(WORKLOADS), metavar="NAME,...", help=_choices(WORKLOADS))
    names = list(allocators.TITLES)
    add("--allocators", type=among(names), default=names, metavar="NAME,...", help=_choices(names))
    add(
        "--capacities",
        type=_capacities,
        metavar="C,...",
        help="ample, or a multiple of what ours holds at most with ample memory (default ample,1.1,1.05,1.02)",
    )
    add("--steps", type=count, metavar="N", help="steps that are measured (default 40)")
    add("--warm-up", type=count, metavar="N", help="steps before them (default 15)")
    add("--repeats", type=count, metavar="N", help="of each training (default 5; 1 on the simulated GPU)")
    add("--minutes", type=minutes, default=math.inf, metavar="N", help="begin nothing that would take longer")
    add("--seed", type=seed, default=0, metavar="N", help="of weights and shapes (default 0)")
    add(
        "--simulate",
        type=simulated_gpu.parse_size,
        nargs="?",
        const=DEFAULT_SIMULATED_MEMORY,
        metavar="SIZE",
        help="run on a simulated GPU of this memory (24GiB) even if there is a real one",
    )
    add("--quick", action="store_true", help="small models, few steps, one tight capacity: to see that all works")
    add("--json", type=Path, metavar="FILE", help="also write the figures of every run to a file")
    options = parser.parse_args(arguments)
    tight = ["1.05"] if options.quick else ["1.1", "1.05", "1.02"]
    options.capacities = options.capacities or [AMPLE, *tight]
    options.steps = options.steps or (6 if options.quick else 40)
    options.warm_up = options.warm_up or (2 if options.quick else 15)
    return options


def _choices(names: Sequence[str]) -> str:
    return f"which of {', '.join(names)} (default all)"


def _capacities(text: str) -> list[str]:
    chosen = list(dict.fromkeys(text.split(",")))
    for capacity in chosen:
        try:
            valid = capacity == AMPLE or 0 < float(capacity) < math.inf
        except ValueError:
            valid = False
        if not valid:
            raise argparse.ArgumentTypeError(f"{capacity!r} is neither {AMPLE} nor a number above zero")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
