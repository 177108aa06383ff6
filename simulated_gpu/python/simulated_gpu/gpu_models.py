"""GPUs that people ask for: what a program finds on each, and where that is published.

The figures lie in ``gpu_models.json`` beside this file. ``memory_bytes`` is what CUDA, and so PyTorch, calls the GPU's
total memory; it is below what the GPU is sold as, since the driver keeps some back. Each figure has a source: an
address, a line to search public logs for, or the rule by which it was estimated.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path

from .modelled_machine import ModelledMachine

TABLE = Path(__file__).with_suffix(".json")
# Words of names that people leave out, and those that they write otherwise.
LEFT_OUT = {"nvidia", "geforce", "tesla", "rtx", "gtx", "gpu"}
SAME = {"gb": "g", "gib": "g", "mobile": "laptop"}
NEAREST = 3
EXAMPLES = ["RTX 4090", "A100-80GB", "H100"]
_OF_AMD = re.compile(r"amd|instinct|radeon|mi\d{2,}|rx\d{3,}")


class UnknownGpu(ValueError):
    """No GPU of the table is meant, or more than one; the message is one line that names those that may be."""


@dataclasses.dataclass(frozen=True)
class GpuModel:
    """A GPU as a program sees it.

    Attributes:
        name: What CUDA calls it.
        aliases: What people call it. One that several models have is a name of none.
        marketing_gb: The memory that it is sold with.
        memory_bytes: CUDA's total memory.
        context_bytes: What a process with PyTorch takes of it before its first tensor.
        estimated: The figures that no publication has, but a rule.
        sources: Of each figure.
        unified: Its memory is the host's.
        note: What else is known of its figures; "" if nothing.
    """

    name: str
    aliases: tuple[str, ...]
    marketing_gb: int
    memory_bytes: int
    capability: str
    multiprocessors: int
    l2_bytes: int
    context_bytes: int
    estimated: tuple[str, ...]
    sources: Mapping[str, str]
    unified: bool = False
    note: str = ""

    @property
    def is_for_sale(self) -> bool:
        """As a card, or by the hour, and PyTorch's newest packages have kernels for it: no part of a laptop or of a
        small computer, and none of a line that is no longer made."""
        is_old = "GTX" in self.name or self.capability.startswith("6.")
        return not (self.unified or "Laptop" in self.name or is_old)

    def environment_text(self) -> str:
        """The value of FRUGAL_SIM_GPU for a simulated GPU of this model; one before Volta is like a Volta."""
        l2 = f"{self.l2_bytes >> 10}KiB"
        capability = "7.0" if self.capability.startswith("6.") else self.capability
        return f"name={self.name},capability={capability},multiprocessors={self.multiprocessors},l2={l2}"

    def environment(self) -> dict[str, str]:
        """What the simulated GPU is told beside its memory, so that it is of this model."""
        context, unified = self.context_bytes, self.unified
        return ModelledMachine(gpu=self.environment_text(), context=context, unified=unified).variables()


@functools.cache
def models() -> tuple[GpuModel, ...]:
    """All of the table, by name."""
    return tuple(_model(entry) for entry in json.loads(TABLE.read_text(encoding="utf-8")))


def find(text: str) -> GpuModel:
    """The GPU that a person means by its name or a part of it: "RTX 4090", "rtx4090", "4090", "A100-40GB".

    Raises:
        UnknownGpu: there is none, or there are several.
    """
    found = _by_key().get(_key(text), [])
    if len(found) == 1:
        return found[0]
    if found:
        choices = " or ".join(_distinct_alias(model) for model in found)
        raise UnknownGpu(f"{text!r:.60} is more than one GPU; write {choices}")
    if _OF_AMD.match(_key(text)):
        raise UnknownGpu(f"{text!r:.60} is a GPU of AMD's, and those are not modelled, only NVIDIA's")
    near = ", ".join(_nearest(text))
    raise UnknownGpu(f"no GPU {text!r:.60} is known; near it are {near}; or give the memory of yours")


def _model(entry: dict) -> GpuModel:
    return GpuModel(**{name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()})


def _key(text: str) -> str:
    """What the spellings of a name have in common."""
    words = re.findall(r"[a-z]+|\d+", text.casefold())
    return "".join(SAME.get(word, word) for word in words if word not in LEFT_OUT)


def _keys(model: GpuModel) -> set[str]:
    """Of its names, each also with its memory behind: "RTX 4090 24GB"."""
    keys = {_key(name) for name in (model.name, *model.aliases)}
    return keys | {f"{key}{model.marketing_gb}g" for key in keys}


@functools.cache
def _by_key() -> dict[str, list[GpuModel]]:
    result: dict[str, list[GpuModel]] = {}
    for model in models():
        for key in _keys(model):
            result.setdefault(key, []).append(model)
    return result


def _distinct_alias(model: GpuModel) -> str:
    return next((alias for alias in model.aliases if len(_by_key()[_key(alias)]) == 1), model.name)


def _nearest(text: str) -> list[str]:
    """Names of the table that are most like this one."""
    if not _key(text):
        return EXAMPLES
    keys = difflib.get_close_matches(_key(text), _by_key(), n=2 * NEAREST, cutoff=0.0)
    return list(dict.fromkeys(_distinct_alias(model) for key in keys for model in _by_key()[key]))[:NEAREST]
