"""The process on the simulated GPU: ``python -m bench.watching NAME,... SAMPLES``."""

from __future__ import annotations

import csv
import gc
import json
import os
import random
import statistics
import sys
import time

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .programs import steps

WAYS = ("native", "watched", "not watched")
TURN, TURNS, STRETCHES = 5, 24, 2
HEAD = [
    *("program", "steps", "native, ms", "watched, ms", "in all", "median pair (quartiles)", "over not watched"),
    *("our collections", "Python's", "ours take"),
]


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


def _row(name: str, stretch: int, samples: list[dict[str, list[dict]]]) -> list[str]:
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
    return [*cells, f"{ours:.1f}", f"{of_all - ours:.1f}", f"{spent:.2%}"]


def main(names: list[str], sample_count: int) -> None:
    os.sched_setaffinity(0, {random.choice(list(os.sched_getaffinity(0)))})
    torch.set_num_threads(1)
    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    write(HEAD)
    for name in names:
        order = random.Random(1)
        samples = [_sample(name, order) for _ in range(sample_count)]
        for stretch in range(STRETCHES):
            write(_row(name, stretch, samples))
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1].split(","), int(sys.argv[2]))
