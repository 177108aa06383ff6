"""Adversarial allocation histories: programs that allocators find hard, made up from a seed.

Defaults and seeds are the benchmark's: they were written down before anything was tuned against them.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

from frugal_alloc._replay.history import History

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
from .recorder import GIB, BadParameter, Recorder

__all__ = ["DEFAULT_SEED", "GENERATORS", "BadParameter", "Generator", "changed", "generate"]

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


def generate(name: str, seed: int = DEFAULT_SEED, scale: float = 1.0, changes: dict[str, str] | None = None) -> History:
    """The history of a generator.

    Args:
        scale: how many times as long as by default: steps, requests or iterations.
        changes: parameters by name, as text.

    Raises:
        KeyError: there is no such generator.
        BadParameter: one of `changes`, or the scale, cannot be.
    """
    generator = GENERATORS[name]
    parameters = changed(_scaled(generator, scale), changes or {})
    try:
        return generator.generate(random.Random(seed), parameters).history(name)
    except BadParameter:
        raise
    except (ValueError, ArithmeticError) as error:
        raise BadParameter(f"these parameters do not go together ({error})") from None


def _scaled(generator: Generator, scale: float) -> Any:
    if not 0 < scale <= 100:
        raise BadParameter(f"the scale must be above 0 and at most 100, not {scale:g}")
    longer = {name: max(1, round(getattr(generator.defaults, name) * scale)) for name in generator.lengths}
    return dataclasses.replace(generator.defaults, **longer)


def changed(parameters: Any, changes: dict[str, str]) -> Any:
    """A generator's parameters with these, which are as text. Raises BadParameter."""
    values: dict[str, int | float] = {}
    for name, text in changes.items():
        default = getattr(parameters, name, None)
        if type(default) not in (int, float):
            known = [field.name for field in dataclasses.fields(parameters)]
            known = [field for field in known if type(getattr(parameters, field)) in (int, float)]
            raise BadParameter(f"no parameter {name!r}; there are {', '.join(known)}")
        try:
            values[name] = type(default)(text)
        except ValueError:
            raise BadParameter(f"{name} is a number such as {default}, not {text!r:.40}") from None
        if not 0 < values[name] <= 1 << 40:
            raise BadParameter(f"{name} must be above 0 and at most {1 << 40}, not {text!r:.40}")
    return dataclasses.replace(parameters, **values)
