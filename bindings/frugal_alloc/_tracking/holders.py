"""Who holds leaked memory: the names that reach its tensors, or the tensors whose graphs have saved it."""

from __future__ import annotations

import collections
import gc
import types
from typing import Any, NamedTuple

from .._program.users_code import is_users
from . import live_tensors, orphans, raw_objects
from .growers import Grower, growers
from .live_tensors import Contents, Extent, Extents, contents_of
from .names import Name, name_of
from .reach import Reach, tensors_within
from .roots import of_libraries, of_program

MOST_HOLDERS = 4
# Of each leak: what the smallest of more hold is little.
MOST_GATHERERS = 8
# What holds less of a leak is no reason for it.
LEAST_SHARE = 0.1
# Where less of a leak is explained, nobody is said to hold it.
EXPLAINED = 0.5
# Of a leak's epochs that a holder must have tensors of. A deque with a maxlen, and the latest result, have few; and
# those are the latest.
LEAST_EPOCHS = 1 / 3
SAMPLED_TENSORS = 6

Block = tuple[int, int, int]


class Holder(NamedTuple):
    """One that holds tensors, or whose graphs do."""

    name: Name
    tensors: int  # of the leak's that it holds itself, or that hold graphs of the leak
    bytes: int
    share: float  # of the leak's bytes
    has_graph: bool  # a tensor that it holds carries the graph that made it
    is_scalar: bool  # all of them have one element, as a loss has


class Evidence(NamedTuple):
    """What is known of who holds one leak."""

    holders: list[Holder]
    is_in_graphs: bool  # more in the graphs behind tensors than in tensors; long graphs are not looked at whole
    is_concatenated: bool  # a tensor among them was made by cat or stack
    hooks: list[str]  # functions that are hooks of modules and use a holder's name
    share: float = 0.0  # of the leak's bytes that all holders explain
    is_nameless: bool = False  # no name of the program's reaches the holders, as garbage that is not collected yet
    passed_over: tuple[Name, ...] = ()  # who has some of it and is no holder, such as the variable with the latest

    @property
    def is_explained(self) -> bool:
        """Whether the holders have most of it: else who holds the leak is not known."""
        return self.share >= EXPLAINED


NOTHING = Evidence([], False, False, [])


def find(groups: list[list[Block]]) -> list[Evidence]:
    """Who holds each group of blocks, given as (address, bytes, epoch of birth; -1: not known).

    Holds the GIL, and looks at every object that the program's names reach, and where these do not explain it, at all
    that libraries reach: some tenths of a second. Neither this call nor its result keeps any object alive.
    """
    if not any(groups):
        return [NOTHING] * len(groups)
    was_enabled = gc.isenabled()
    # A collection in between would run code of the user's, and finds nothing to free while all is held here.
    gc.disable()
    try:
        with live_tensors.without_torch_functions():
            return _Search(groups).evidence()
    finally:
        if was_enabled:
            gc.enable()


class _Candidate(NamedTuple):
    name: Name
    contents: Contents
    number: int
    is_bounded: bool  # a deque with a maxlen, which may not be full yet


class _Search:
    def __init__(self, groups: list[list[Block]]) -> None:
        self._groups = groups
        self._extents = Extents(
            Extent(address, size, number) for number, blocks in enumerate(groups) for address, size, _ in blocks
        )
        self._births = [_births(blocks) for blocks in groups]
        self._sizes = [{address: size for address, size, _ in blocks} for blocks in groups]
        self._reach = Reach()
        self._contents: dict[int, Contents] = {}
        self._hooks: dict[str, set[str]] = {}

    def evidence(self) -> list[Evidence]:
        self._reach.walk(of_program())
        found = self._all()
        if all(one.is_explained for one, blocks in zip(found, self._groups, strict=True) if blocks):
            return found
        self._reach.walk(of_libraries(live_tensors.objects()))
        self._reach.enter_libraries()
        found = self._all()
        if all(one.is_explained for one, blocks in zip(found, self._groups, strict=True) if blocks):
            return found
        self._reach.walk(orphans.of(self._extents, self._reach))
        return [
            before if before.is_explained else now._replace(is_nameless=True)
            for before, now in zip(found, self._all(), strict=True)
        ]

    def _all(self) -> list[Evidence]:
        objects = self._reach.objects
        contents = contents_of([(number, objects[number]) for number in self._reach.tensors], self._extents)
        self._hooks = _hooks([objects[number] for number in self._reach.modules])
        return [self._evidence_of(group, contents) for group in range(len(self._groups))]

    def _evidence_of(self, group: int, contents: Contents) -> Evidence:
        sizes = self._sizes[group]
        births: dict[int, int] = {}
        for address, number in contents.all():
            if address in sizes:
                births[number] = births.get(number, 0) | self._births[group][address]
        if not births:
            return NOTHING
        candidates = self._candidates(growers(self._reach, births), births)
        holders, reached = self._chosen(group, candidates)
        told = {holder.name for holder in holders}
        direct = sum(size for address, size in sizes.items() if address in contents.owned)
        saved = sum(size for address, size in sizes.items() if address not in contents.owned and address in reached)
        names = {holder.name.name.removeprefix("self.").partition("[")[0] for holder in holders}
        owned = [self._reach.objects[n] for a, n in contents.owned.items() if a in sizes][:SAMPLED_TENSORS]
        made_by = {type(live_tensors.graph_of(tensor)).__name__ for tensor in owned}
        return Evidence(
            holders,
            saved > direct,
            any(name.startswith(("CatBackward", "StackBackward")) for name in made_by),
            [name for name, used in self._hooks.items() if names & used],
            sum(sizes[address] for address in reached) / sum(sizes.values()),
            tuple(one.name for one in candidates if one.name not in told),
        )

    def _candidates(self, found: list[Grower], births: dict[int, int]) -> list[_Candidate]:
        """Those that gather, each name once: what hold the parts of a model has one name in words."""
        named: dict[Name, list[Grower]] = {}
        for one in found:
            name = name_of(self._reach, one.number, one.example)
            if name is not None:
                named.setdefault(name, []).append(one)
        # The most common first.
        ranked = sorted(named.items(), key=lambda item: -len(item[1]))[: 4 * MOST_GATHERERS]
        candidates = []
        for name, ones in ranked:
            contents = Contents.together([self._below(one.number) for one in ones])
            is_bounded = all(_is_bounded(self._reach.objects[one.number]) for one in ones)
            candidates.append(_Candidate(name, contents, min(one.number for one in ones), is_bounded))
        return candidates

    def _below(self, number: int) -> Contents:
        if number not in self._contents:
            self._contents[number] = contents_of(tensors_within(self._reach.objects[number]), self._extents)
        return self._contents[number]

    def _chosen(self, group: int, candidates: list[_Candidate]) -> tuple[list[Holder], set[int]]:
        """The fewest that hold most, and the addresses of what they hold."""
        sizes, births = self._sizes[group], self._births[group]
        epochs = _together(births.values())
        left = [(one, {address for address, _ in one.contents.all() if address in sizes}) for one in candidates]
        holders: list[Holder] = []
        reached: set[int] = set()
        total = sum(sizes.values())
        while left and len(holders) < MOST_HOLDERS:
            more = [sum(sizes[address] for address in held - reached) for _, held in left]
            # What has a bound may hold most while there are few: it comes after all that have none.
            best = max(
                range(len(left)),
                key=lambda at: (
                    more[at] >= LEAST_SHARE * total and not left[at][0].is_bounded,
                    more[at],
                    -left[at][0].number,
                ),
            )
            candidate, held = left.pop(best)
            if more[best] < LEAST_SHARE * total:
                break
            if not _gathers(_together(births[address] for address in held), epochs.bit_count()):
                continue
            reached |= held
            holders.append(_holder(candidate, held, sizes, total))
        return holders, reached


def _is_bounded(value: Any) -> bool:
    return type(value) is collections.deque and value.maxlen is not None


def _gathers(held: int, epochs: int) -> bool:
    """Whether what has tensors of some epochs, given as bits, has enough of all, and old ones among them."""
    first = (held & -held).bit_length() - 1
    return held.bit_count() >= LEAST_EPOCHS * epochs and first * 2 < epochs


def _holder(candidate: _Candidate, held: set[int], sizes: dict[int, int], total: int) -> Holder:
    contents = candidate.contents
    owned = [contents.tensors[contents.owned[address]] for address in held if address in contents.owned]
    carriers = [
        contents.tensors[number]
        for number in {contents.saved[address] for address in held if address not in contents.owned}
    ]
    size = sum(sizes[address] for address in held)
    of_graphs = sum(sizes[address] for address in held if address not in contents.owned)
    # What most of it is in.
    told = carriers if of_graphs > size - of_graphs else owned
    return Holder(
        candidate.name,
        len(told),
        size,
        size / total,
        bool(carriers)
        or candidate.name.is_through_context
        or any(live_tensors.graph_of(tensor) is not None for tensor in told),
        all(live_tensors.is_plain(tensor) and tensor.numel() == 1 for tensor in told),
    )


def _births(blocks: list[Block]) -> dict[int, int]:
    """By address, the epoch of birth as one bit. Where epochs are not known each block is one of its own."""
    known = sorted({birth for _, _, birth in blocks if birth >= 0})
    if not known:
        return {address: 1 << number for number, (address, _, _) in enumerate(sorted(blocks))}
    bits = {birth: 1 << number for number, birth in enumerate(known)}
    return {address: bits.get(birth, bits[known[-1]]) for address, _, birth in blocks}


def _together(bits: Any) -> int:
    result = 0
    for one in bits:
        result |= one
    return result


def _hooks(modules: list[Any]) -> dict[str, set[str]]:
    """The program's functions that are hooks of modules, and the names that each uses."""
    found: dict[str, set[str]] = {}
    for module in modules:
        attributes = raw_objects.dictionary_of(module) or {}
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            hooks = attributes.get(kind)
            for _, hook in raw_objects.items_of(hooks) if isinstance(hooks, dict) else ():
                function = hook.__func__ if type(hook) is types.MethodType else hook
                if type(function) is types.FunctionType and is_users(function.__code__.co_filename):
                    code = function.__code__
                    found.setdefault(function.__name__, set()).update(code.co_names, code.co_freevars)
    return found
