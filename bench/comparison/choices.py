"""The choices that the policy's options are, and what else each might have been."""

from __future__ import annotations

import dataclasses

NEVER_REACHED = 1 << 40

# By option of allocator/port/policy_options.h: values, and what one says that is more than another amount. An option
# that is not here is tried at half and at double its value.
VALUES: dict[str, dict[int, str]] = {
    "waste_part": {8: "", 16: "", 64: "", NEVER_REACHED: "no memory beyond the most in use"},
    "piece_part": {256: "", 512: "", 2048: ""},
    "request_part": {4: "", 8: "", 16: ""},
    "largest_piece": {1: "pages of 2 MiB alone", 4: "", 32: ""},
    "most_edges": {3: "", 16: ""},
    "unmap_weight": {1: "no weight", 100: ""},
    "homes": {0: "handles stay where they were moved"},
    "past_stitches": {0: "no place is tried again"},
}


@dataclasses.dataclass(frozen=True)
class Alternative:
    """One option with another value."""

    option: str
    value: int
    instead_of: int
    # What the value says; empty: it is just another amount.
    words: str

    @property
    def title(self) -> str:
        return f"{self.option}={self.value}"


def alternatives(options: dict[str, int], chosen: list[str] | None = None) -> list[Alternative]:
    """Of the options chosen, or of all, with their present values in `options`."""
    found = []
    for option, present in options.items():
        if chosen is not None and option not in chosen:
            continue
        values = VALUES.get(option) or {present // 2: "", present * 2: ""}
        found += [Alternative(option, value, present, words) for value, words in values.items() if value != present]
    return found
