"""What a simulated machine is like, as its variables say it. Their names are here for all but ``values``, which is
loaded by its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_PREFIX = "FRUGAL_SIM_"
# Fields whose variables are called otherwise, or that mean a word there.
_NAMES = {"kept": "KEEP", "modelled_time": "TIME", "ends_unsupported": "UNSUPPORTED"}
_WORDS = {"modelled_time": "modelled", "ends_unsupported": "end"}


@dataclass(frozen=True)
class ModelledMachine:
    """Each field is a variable of the simulated GPU; what is left out stays as the environment has it."""

    gpu: str | None = None  # which model the GPUs are: "name=NVIDIA L4,capability=8.9"
    gpus: int | None = None  # how many there are
    memory: int | None = None  # bytes of each of them
    context: int | None = None  # bytes of it that the driver takes for itself
    unified: bool = False  # the memory is the host's
    values: str | None = None  # which are computed: "none" or "cpu"
    backing: str | None = None  # what lies behind the addresses: "memory" or "none"
    kept: int | None = None  # bytes: larger copies and fills move nothing
    modelled_time: bool = False  # time is the same in every run
    beyond: bool = False  # requests for more memory than there is succeed
    ends_unsupported: bool = False  # what is not simulated ends the process with status 8
    node: str | None = None  # the file of those who share the GPUs
    costs: str | None = None  # a file of what the driver's calls take
    driver_time: bool = False  # they take their time
    full: bool = False  # the driver takes memory for itself as it needs it
    libraries: str | None = None  # the folder of the simulated GPU's own

    def variables(self) -> dict[str, str]:
        settings = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {
            variable(name): _text(name, value) for name, value in settings if value is not None and value is not False
        }


def variable(field: str) -> str:
    """What the environment calls a field."""
    return _PREFIX + _NAMES.get(field, field.upper())


def said(field: str, environment: Mapping[str, str]) -> str:
    """What an environment says of it; "" if nothing."""
    return environment.get(variable(field), "")


def _text(field: str, value: Any) -> str:
    return _WORDS.get(field, "1") if value is True else str(value)
