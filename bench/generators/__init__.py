"""Adversarial allocation histories: programs that allocators find hard, made up from a seed.

What is drawn, and the seeds, are the benchmark's: they were written down before anything was tuned against them.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import random
from collections.abc import Callable
from typing import NamedTuple

from frugal_alloc._planning.replay.history import History

from . import phases
from .kv_server import kv_server
from .lifetimes import fixed_random, odd_sizes, pinned_survivors
from .multi_scale import multi_scale
from .recorder import GIB, BadScale, Recorder
from .streams import late_streams, many_pools
from .trainings import Shape, fixed_training, optimizer_offload, train_evaluate, variable_batches

__all__ = ["DEFAULT_SEED", "GENERATORS", "BadScale", "Generator", "generate"]

DEFAULT_SEED = 20_260_101
# The arguments that make a history longer.
_LENGTHS = ("rounds", "warm_up")


class Generator(NamedTuple):
    # Of what draws the program, which comes first, and of _LENGTHS.
    make: Callable[..., Recorder]
    # One line.
    summary: str


def _of(make: Callable[..., Recorder]) -> Generator:
    return Generator(make, (inspect.getdoc(make) or "").split("\n")[0].rstrip("."))


def _phased(parameters: phases.Parameters) -> Generator:
    length = "phases" if parameters.phases > 1 else "tensors"

    def make(chance: random.Random, rounds: int = getattr(parameters, length)) -> Recorder:
        return phases.generate(chance, dataclasses.replace(parameters, **{length: rounds}))

    summary = f"Phases that leave small survivors on a GPU of {parameters.memory / GIB:g} GiB, then one size alone"
    return Generator(make, summary)


_FOUR_STREAMS = {"streams": 4, "stream_lag": 32}
_SMALL_GPT = Shape(layers=6, hidden=512, heads=8, vocabulary=16_000)
GENERATORS: dict[str, Generator] = {
    "variable_batches": _of(variable_batches),
    "multi_scale": _of(multi_scale),
    "late_streams": _of(late_streams),
    "pinned_survivors": _of(pinned_survivors),
    "train_evaluate": _of(train_evaluate),
    "kv_server": _of(kv_server),
    "optimizer_offload": _of(optimizer_offload),
    "many_pools": _of(many_pools),
    "odd_sizes": _of(odd_sizes),
    "fixed_training": _of(fixed_training),
    "fixed_training_4": Generator(
        functools.partial(fixed_training, shape=_SMALL_GPT, **_FOUR_STREAMS),
        "The same of four models, each on a stream of its own",
    ),
    "fixed_random": _of(fixed_random),
    "fixed_random_4": Generator(functools.partial(fixed_random, **_FOUR_STREAMS), "The same on four streams"),
    **{name: _phased(parameters) for name, parameters in phases.FIXED.items()},
}


def generate(name: str, seed: int = DEFAULT_SEED, scale: float = 1.0) -> History:
    """The history of a generator.

    Args:
        scale: how many times as long as by default: steps, requests or iterations.

    Raises:
        KeyError: there is no such generator.
        BadScale
    """
    make = GENERATORS[name].make
    if not 0 < scale <= 100:
        raise BadScale(f"the scale must be above 0 and at most 100, not {scale:g}")
    takes = inspect.signature(make).parameters
    longer = {length: max(1, round(takes[length].default * scale)) for length in _LENGTHS if length in takes}
    return make(random.Random(seed), **longer).history(name)
