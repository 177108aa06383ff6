"""What a simulated machine is like beyond how many GPUs of how much memory it has, as its variables say it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelledMachine:
    """Each field is a variable of the simulated GPU; what is left out stays as the environment has it.

    Attributes:
        gpu: FRUGAL_SIM_GPU, which model the GPUs are: "name=NVIDIA L4,capability=8.9".
        kept: FRUGAL_SIM_KEEP, bytes: larger copies and fills move nothing.
        modelled_time: FRUGAL_SIM_TIME=modelled, time that is the same in every run.
        beyond: FRUGAL_SIM_BEYOND=1, requests for more memory than there is succeed.
        ends_unsupported: FRUGAL_SIM_UNSUPPORTED=end, what is not simulated ends the process with status 8.
    """

    gpu: str | None = None
    kept: int | None = None
    modelled_time: bool = False
    beyond: bool = False
    ends_unsupported: bool = False

    def variables(self) -> dict[str, str]:
        said = {
            "FRUGAL_SIM_GPU": self.gpu,
            "FRUGAL_SIM_KEEP": None if self.kept is None else str(self.kept),
            "FRUGAL_SIM_TIME": "modelled" if self.modelled_time else None,
            "FRUGAL_SIM_BEYOND": "1" if self.beyond else None,
            "FRUGAL_SIM_UNSUPPORTED": "end" if self.ends_unsupported else None,
        }
        return {name: value for name, value in said.items() if value is not None}
