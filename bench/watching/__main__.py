"""What watching costs of a training's host time, from its first step on.

From the root of a checkout: ``.venv/bin/frugal-alloc simulate --memory 16GiB -- .venv/bin/python -m bench.watching``.

Kernels and calls of the driver take hardly any time on the simulated GPU. So a step is the host's work alone, of which
watching takes the largest part; on a GPU it is hidden behind kernels, unless these are short. No values are computed.

A sample is one process for each way to run. They take turns on one core, in a random order: a turn is five steps, and
its figure the processor time of all threads. What the machine does beside makes both of a pair of turns slower.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import sys
import time

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .programs import PROGRAMS, steps

WAYS = ("native", "watched", "not watched")
TURN, TURNS, STRETCHES = 5, 24, 2


def _count_collections() -> dict[str, float]:
    """Garbage collections of this process from now on: those that call gc.collect(), which are ours, and all."""
    figures, collect = {"ours": 0, "ours_s": 0.0, "all": 0}, gc.collect

    def collect_ours(generation: int = 2) -> int:
        start = time.thread_time()
        found = collect(generation)
        figures.update(ours=figures["ours"] + 1, ours_s=figures["ours_s"] + time.thread_time() - start)
        return found

    gc.collect = collect_ours
    gc.callbacks.append(lambda phase, _: figures.update(all=figures["all"] + (phase == "start")))
    return figures


def _work(name: str, way: str, turns: int, results: int) -> None:
    """Makes a turn of steps for each byte read, and writes how long it took."""
    collections = _count_collections()
    start = time.process_time()
    if way != "native":
        import frugal_alloc

        frugal_alloc.enable(track=way == "watched", publish=False)
    with _disable_current_modes(), os.fdopen(results, "w", 1) as answer:
        training = steps(name)
        # The first turn has the package's own start in it, and the model's.
        taken = time.process_time() - start
        while os.read(turns, 1):
            start = time.process_time()
            for _ in range(TURN):
                next(training)
            taken += time.process_time() - start
            answer.write(json.dumps({"s": taken, **collections}) + "\n")
            taken = 0.0


def _sample(name: str, order: random.Random) -> dict[str, list[dict]]:
    """By way to run, the figures of each turn."""
    pipes = {}
    for way in WAYS:
        (turns, give), (read, results) = os.pipe(), os.pipe()
        if os.fork() == 0:
            for other, _ in pipes.values():
                other.close()
            os.close(give)
            _work(name, way, turns, results)
            os._exit(0)
        os.close(turns)
        os.close(results)
        pipes[way] = os.fdopen(give, "wb", 0), os.fdopen(read)
    figures: dict[str, list[dict]] = {way: [] for way in WAYS}
    for _ in range(TURNS * STRETCHES):
        for way in order.sample(WAYS, len(WAYS)):
            pipes[way][0].write(b".")
            figures[way].append(json.loads(pipes[way][1].readline()))
    for give, _ in pipes.values():
        give.close()
        os.wait()
    return figures


def _row(name: str, stretch: int, samples: list[dict[str, list[dict]]]) -> str:
    first, end = TURNS * stretch, TURNS * (stretch + 1)
    native, watched, not_watched = ([turn["s"] for of in samples for turn in of[way][first:end]] for way in WAYS)
    ratios = [ours / other - 1 for ours, other in zip(watched, native, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    bare = statistics.median(ours / other - 1 for ours, other in zip(watched, not_watched, strict=True))
    ends = [of["watched"][end - 1] for of in samples]
    ours, of_all = (statistics.mean(turn[whose] for turn in ends) for whose in ("ours", "all"))
    spent = sum(turn["ours_s"] for turn in ends) / sum(turn["s"] for of in samples for turn in of["watched"][:end])
    cells = [name, f"{first * TURN + 1}-{end * TURN}"]
    cells += [f"{statistics.mean(turns) / TURN * 1e3:.2f}" for turns in (native, watched)]
    cells += [f"{sum(watched) / sum(native) - 1:+.1%}", f"{middle:+.1%} ({low:+.1%} to {high:+.1%})", f"{bare:+.1%}"]
    return "| " + " | ".join([*cells, f"{ours:.1f}", f"{of_all - ours:.1f}", f"{spent:.2%}"]) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.watching", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PROGRAMS, nargs="+", default=list(PROGRAMS))
    parser.add_argument("--samples", type=int, default=4, help="of 24 pairs of turns for each row (default 4)")
    options = parser.parse_args()
    os.sched_setaffinity(0, {random.choice(list(os.sched_getaffinity(0)))})
    torch.set_num_threads(1)
    print(
        "| program | steps | native, ms | watched, ms | in all | median pair (quartiles) | over not watched "
        "| our collections | Python's | ours take |\n| --- | --- |" + " ---: |" * 8
    )
    for name in options.only:
        order = random.Random(1)
        samples = [_sample(name, order) for _ in range(options.samples)]
        for stretch in range(STRETCHES):
            print(_row(name, stretch, samples), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
