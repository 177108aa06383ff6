"""Adversarial allocation histories: programs that allocators find hard, made up from a seed.

Defaults and seeds are the benchmark's: they were written down before anything was tuned against them.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

from frugal_alloc._planning.replay.history import History

from . import (
    fixed_random,
    fixed_training,
    kv_server,
    late_streams,
    many_pools,
    multi_scale,
    odd_sizes,
    optimizer_offload,
    phases,
    pinned_survivors,
    train_evaluate,
    variable_batches,
)
from .recorder import GIB, BadScale, Recorder

__all__ = ["DEFAULT_SEED", "GENERATORS", "BadScale", "Generator", "generate"]

DEFAULT_SEED = 20_260_101


@dataclasses.dataclass(frozen=True)
class Generator:
    name: str
    # One line.
    summary: str
    generate: Callable[[random.Random, Any], Recorder]
    # A frozen dataclass.
    defaults: Any
    # The parameters that make the history longer.
    lengths: tuple[str, ...]


def _of(name: str, module: Any, *lengths: str, defaults: Any = None, summary: str = "") -> Generator:
    summary = summary or module.__doc__.strip().split("\n")[0].rstrip(".")
    return Generator(name, summary, module.generate, defaults or module.Parameters(), lengths)


def _phased(name: str) -> Generator:
    parameters = phases.FIXED[name]
    return _of(
        name,
        phases,
        "phases" if parameters.phases > 1 else "tensors",
        defaults=parameters,
        summary=f"Phases that leave small survivors on a GPU of {parameters.memory / GIB:g} GiB, then one size alone",
    )


GENERATORS: dict[str, Generator] = {
    generator.name: generator
    for generator in (
        _of("variable_batches", variable_batches, "steps", "warm_up_steps"),
        _of("multi_scale", multi_scale, "steps", "warm_up_steps"),
        _of("late_streams", late_streams, "steps", "warm_up_steps"),
        _of("pinned_survivors", pinned_survivors, "phases", "warm_up_phases"),
        _of("train_evaluate", train_evaluate, "epochs", "warm_up_epochs"),
        _of("kv_server", kv_server, "requests", "warm_up_requests"),
        _of("optimizer_offload", optimizer_offload, "steps", "warm_up_steps"),
        _of("many_pools", many_pools, "rounds", "warm_up_rounds"),
        _of("odd_sizes", odd_sizes, "iterations", "warm_up_iterations"),
        _of("fixed_training", fixed_training, "iterations"),
        _of(
            "fixed_training_4",
            fixed_training,
            "iterations",
            defaults=fixed_training.FOUR_STREAMS,
            summary="The same of four models, each on a stream of its own",
        ),
        _of("fixed_random", fixed_random, "iterations"),
        _of(
            "fixed_random_4",
            fixed_random,
            "iterations",
            defaults=fixed_random.FOUR_STREAMS,
            summary="The same on four streams",
        ),
        *(_phased(name) for name in phases.FIXED),
    )
}


def generate(name: str, seed: int = DEFAULT_SEED, scale: float = 1.0) -> History:
    """The history of a generator.

    Args:
        scale: how many times as long as by default: steps, requests or iterations.

    Raises:
        KeyError: there is no such generator.
        BadScale
    """
    generator = GENERATORS[name]
    if not 0 < scale <= 100:
        raise BadScale(f"the scale must be above 0 and at most 100, not {scale:g}")
    longer = {length: max(1, round(getattr(generator.defaults, length) * scale)) for length in generator.lengths}
    parameters = dataclasses.replace(generator.defaults, **longer)
    return generator.generate(random.Random(seed), parameters).history(name)
