"""What the command tells the agent in a program, through the environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

_FOLDER, _ALLOCATOR = "FRUGAL_FIT_FOLDER", "FRUGAL_FIT_ALLOCATOR"
_STEPS, _CALLS = "FRUGAL_FIT_STEPS", "FRUGAL_FIT_CALLS"


@dataclasses.dataclass(frozen=True)
class Orders:
    folder: str  # for the records
    allocator: str
    steps: int | None  # None: until the program ends
    calls: int | None = None  # of the model, in a program without steps

    def to_environment(self) -> dict[str, str]:
        numbers = {_STEPS: self.steps, _CALLS: self.calls}
        given = {name: str(number) for name, number in numbers.items() if number is not None}
        return {_FOLDER: self.folder, _ALLOCATOR: self.allocator, **given}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Orders | None:
        """None: no command has given any."""
        folder = environment.get(_FOLDER)
        if not folder:
            return None
        steps, calls = (int(text) if (text := environment.get(name)) else None for name in (_STEPS, _CALLS))
        return cls(folder, environment.get(_ALLOCATOR, "native"), steps, calls)
