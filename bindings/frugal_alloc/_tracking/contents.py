"""Which leaked blocks some tensors hold: their own memory, and what the graphs that made them have saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from . import live_tensors
from .live_tensors import Extents, GraphMemory


class Contents(NamedTuple):
    """Blocks by address, with the number of the tensor that holds each."""

    owned: dict[int, int]  # the first tensor that lies there
    saved: dict[int, int]  # the first one whose graph has saved it
    tensors: dict[int, Any]  # those that are named in the others, by number

    def all(self) -> Iterator[tuple[int, int]]:
        """Each block once, its own tensor first."""
        yield from self.owned.items()
        for address, number in self.saved.items():
            if address not in self.owned:
                yield address, number

    @staticmethod
    def together(parts: list[Contents]) -> Contents:
        """Of several objects. Numbers are new."""
        if len(parts) == 1:
            return parts[0]
        whole = Contents({}, {}, {})
        for part in parts:
            numbers = {old: len(whole.tensors) + new for new, old in enumerate(part.tensors)}
            whole.tensors.update((numbers[old], tensor) for old, tensor in part.tensors.items())
            for address, number in part.owned.items():
                whole.owned.setdefault(address, numbers[number])
            for address, number in part.saved.items():
                whole.saved.setdefault(address, numbers[number])
        return whole


def contents_of(tensors: Iterable[tuple[int, Any]], extents: Extents) -> Contents:
    """What tensors hold, given with their numbers; where two hold the same it is the first one's."""
    owned: dict[int, int] = {}
    roots: list[tuple[int, Any]] = []
    by_number = {}
    for number, tensor in tensors:
        extent = extents.at(live_tensors.address_of(tensor))
        if extent is not None:
            owned.setdefault(extent.address, number)
        if live_tensors.graph_of(tensor) is not None:
            roots.append((number, tensor))
        if extent is not None or (roots and roots[-1][0] == number):
            by_number[number] = tensor
    graphs = GraphMemory([tensor for _, tensor in roots], extents)
    saved = {address: roots[position][0] for address, position in graphs.root_of_block.items()}
    used = {*owned.values(), *saved.values()}
    return Contents(owned, saved, {number: tensor for number, tensor in by_number.items() if number in used})
