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
    """Each field is a variable of the simulated GPU; what is left out stays as the environment has it.

    Attributes:
        gpu: which model the GPUs are: "name=NVIDIA L4,capability=8.9".
        gpus: how many there are.
        memory: bytes of each GPU.
        context: bytes that the driver takes of them for itself.
        unified: the memory is the host's.
        values: "none" or "cpu": which values are computed.
        backing: "memory" or "none": what lies behind the addresses.
        kept: bytes: larger copies and fills move nothing.
        modelled_time: time is the same in every run.
        beyond: requests for more memory than there is succeed.
        ends_unsupported: what is not simulated ends the process with status 8.
        node: the file of those who share the GPUs.
        costs: a file of what the driver's calls take.
        driver_time: the driver's calls take their time.
        full: the driver takes memory as it needs it.
        libraries: the folder of the simulated GPU's own.
    """

    gpu: str | None = None
    gpus: int | None = None
    memory: int | None = None
    context: int | None = None
    unified: bool = False
    values: str | None = None
    backing: str | None = None
    kept: int | None = None
    modelled_time: bool = False
    beyond: bool = False
    ends_unsupported: bool = False
    node: str | None = None
    costs: str | None = None
    driver_time: bool = False
    full: bool = False
    libraries: str | None = None

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
