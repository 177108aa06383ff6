"""Who holds leaked memory: the names that reach its tensors, or the tensors whose graphs have saved it."""

from __future__ import annotations

import functools
import gc
import heapq
import operator
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

from .._heap import live_tensors, raw_objects, roots
from .._heap.live_tensors import Block, Contents, Extents, contents_of
from .._heap.names import Name, name_of, series_among
from .._heap.reach import Reach, tensors_within
from .._program.users_code import is_users
from . import bounds
from .bounds import Bound

# An object of the same class so often on one way: a chain, each of whose members holds the next.
CHAIN = 4


def gatherers(reach: Reach, births: dict[int, int]) -> dict[int, int]:
    """The objects on the nearest ways to some tensors that gather these: the ones that got more with each epoch.

    A list that leaks has tensors of all epochs, and each of its items those of one. So the way is followed from a name
    for as long as one of the next objects has what most epochs left: through an object to its list, through a model to
    each of its layers' lists. A model in a list of copies is of one epoch, so the list is told, not its parameters.

    Args:
        reach: The walk that has reached the tensors.
        births: By number of the tensor, the epochs whose memory it holds, as bits.

    Returns:
        Their numbers, each with that of a tensor below it.
    """
    ways = _Ways(reach, births)
    found: dict[int, int] = {}
    waiting: list[tuple[int, tuple[int, ...]]] = [(number, ()) for number in ways.starts]
    while waiting:
        number, above = waiting.pop()
        following = ways.after.get(number, [])
        is_split = number in births or not any(ways.spans(below, number) for below in following)
        if ways.epochs[number].bit_count() == 1 and len(following) == 1 and number not in births:
            is_split = False
        first = _first_of_chain(reach, (*above, number))
        if first is not None or is_split:
            found[number if first is None else first] = ways.example(number)
        else:
            waiting += [(below, (*above, number)) for below in following]
    return found


class _Ways:
    """The part of the walk that leads to the tensors: a tree."""

    def __init__(self, reach: Reach, births: dict[int, int]) -> None:
        self.epochs: dict[int, int] = dict(births)
        self.after: dict[int, list[int]] = {}
        self.starts: list[int] = []
        # An object is numbered after the one that led to it, so each is complete when its turn comes.
        waiting = [-number for number in births]
        heapq.heapify(waiting)
        while waiting:
            number = -heapq.heappop(waiting)
            parent = reach.parents[number]
            if parent < 0:
                self.starts.append(number)
                continue
            if parent not in self.epochs:
                heapq.heappush(waiting, -parent)
            self.epochs[parent] = self.epochs.get(parent, 0) | self.epochs[number]
            self.after.setdefault(parent, []).append(number)

    def spans(self, number: int, above: int) -> bool:
        """Whether an object has what more than half of the epochs left that the one above it has."""
        return self.epochs[number].bit_count() * 2 > self.epochs[above].bit_count()

    def example(self, number: int) -> int:
        while following := self.after.get(number):
            # Not the latest, which a variable may hold on its own.
            number = following[len(following) // 2]
        return number


def _first_of_chain(reach: Reach, way: tuple[int, ...]) -> int | None:
    kind = type(reach.objects[way[-1]])
    alike = [number for number in way if type(reach.objects[number]) is kind]
    # The attributes of any object are a dictionary.
    return alike[0] if len(alike) >= CHAIN and kind is not dict else None


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


class Holder(NamedTuple):
    """One that holds tensors, or whose graphs do."""

    name: Name
    tensors: int  # of the leak's that it holds itself, or that hold graphs of the leak; or keepers of pools
    bytes: int
    share: float  # of the leak's bytes
    has_graph: bool  # a tensor that it holds carries the graph that made it
    is_scalar: bool  # all of them have one element, as a loss has
    bound: Bound | None = None  # how much it may hold at most; None: it has none that can be seen


class Evidence(NamedTuple):
    """What is known of who holds one leak."""

    holders: list[Holder]
    is_in_graphs: bool  # more in the graphs behind tensors than in tensors; long graphs are not looked at whole
    is_concatenated: bool  # a tensor among them was made by cat or stack
    hooks: list[str]  # functions that are hooks of modules and use a holder's name
    bytes: int = 0  # of the leak, when it was looked at
    share: float = 0.0  # of these that all holders explain
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
    bound: Bound | None  # it may not be full yet


class _Leak:
    """The blocks of one leak."""

    def __init__(self, blocks: list[Block]) -> None:
        self.sizes = {address: size for address, size, _ in blocks}
        #: By address, the epoch as one bit. Where epochs are not known each block is one of its own.
        self.births = {address: 1 << number for number, address in enumerate(sorted(self.sizes))}
        if known := sorted({birth for _, _, birth in blocks if birth >= 0}):
            bits = {birth: 1 << number for number, birth in enumerate(known)}
            self.births = {address: bits.get(birth, bits[known[-1]]) for address, _, birth in blocks}
        self.bytes = sum(self.sizes.values())

    def bytes_of(self, addresses: Iterable[int]) -> int:
        return sum(self.sizes[address] for address in addresses)

    def epochs_of(self, addresses: Iterable[int]) -> int:
        """As bits."""
        return functools.reduce(operator.or_, (self.births[address] for address in addresses), 0)


class _Search:
    def __init__(self, groups: list[list[Block]]) -> None:
        self._leaks = [_Leak(blocks) for blocks in groups]
        self._extents = Extents.of_groups(groups)
        self._reach = Reach()
        # By number of the object, and whether classes of libraries were entered.
        self._contents: dict[tuple[int, bool], Contents] = {}

    def evidence(self) -> list[Evidence]:
        reach = self._reach
        for names in roots.of_program():
            reach.walk(names)
        by_program = self._all()
        if self._explains_all(by_program):
            return by_program
        reach.walk(roots.of_libraries())
        reach.enter_libraries()
        by_all = self._all()
        if self._explains_all(by_all):
            return by_all
        reach.walk(roots.of_orphans(self._extents, reach.objects, (reach.parents, reach.roots, *reach.roots)))
        return [
            before if before.is_explained else now._replace(is_nameless=now.is_explained)
            for before, now in zip(by_all, self._all(), strict=True)
        ]

    def _explains_all(self, evidence: list[Evidence]) -> bool:
        return all(of_leak.is_explained for of_leak, leak in zip(evidence, self._leaks, strict=True) if leak.sizes)

    def _all(self) -> list[Evidence]:
        objects = self._reach.objects
        contents = contents_of([objects[number] for number in self._reach.tensors], self._extents)
        numbers = {id(objects[number]): number for number in self._reach.tensors}
        hooks = _hooks([objects[number] for number in self._reach.modules])
        return [self._evidence_of(leak, contents, numbers, hooks) for leak in self._leaks]

    def _evidence_of(
        self, leak: _Leak, contents: Contents, numbers: dict[int, int], hooks: dict[str, set[str]]
    ) -> Evidence:
        births: dict[int, int] = {}
        for address, tensor in contents.all().items():
            if address in leak.sizes:
                number = numbers[id(tensor)]
                births[number] = births.get(number, 0) | leak.births[address]
        if not births:
            return NOTHING._replace(bytes=leak.bytes)
        candidates = self._candidates(gatherers(self._reach, births))
        holders, reached = _chosen(leak, candidates)
        chosen = {holder.name for holder in holders}
        names = {holder.name.name.removeprefix("self.").partition("[")[0] for holder in holders}
        owned = {address: tensor for address, tensor in contents.owned.items() if address in leak.sizes}
        sampled = list(filter(live_tensors.is_tensor, owned.values()))[:SAMPLED_TENSORS]
        made_by = {type(live_tensors.graph_of(tensor)).__name__ for tensor in sampled}
        return Evidence(
            holders,
            is_in_graphs=leak.bytes_of(reached - owned.keys()) > leak.bytes_of(owned),
            is_concatenated=any(name.startswith(("CatBackward", "StackBackward")) for name in made_by),
            hooks=[name for name, used in hooks.items() if names & used],
            bytes=leak.bytes,
            share=leak.bytes_of(reached) / leak.bytes,
            passed_over=tuple(candidate.name for candidate in candidates if candidate.name not in chosen),
        )

    def _candidates(self, gathering: dict[int, int]) -> list[_Candidate]:
        """Those that gather, each name once: what hold the parts of a model has one name in words."""
        names = {number: name_of(self._reach, number, example) for number, example in gathering.items()}
        series = series_among([name for name in names.values() if name is not None])
        named: dict[Name, list[int]] = {}
        for number, name in names.items():
            if name is not None:
                named.setdefault(series.get(name, name), []).append(number)
        # The most common first.
        ranked = sorted(named.items(), key=lambda item: -len(item[1]))[: 4 * MOST_GATHERERS]
        return [
            _Candidate(
                name,
                Contents.together([self._below(number) for number in numbers]),
                min(numbers),
                Bound.together([self._bound_of(number, name) for number in numbers]),
            )
            for name, numbers in ranked
        ]

    def _bound_of(self, number: int, name: Name) -> Bound | None:
        *path, value = [self._reach.objects[each] for each in self._reach.path_to(number)]
        return bounds.of(value, path[::-1]) or bounds.in_code(value, path[::-1], name)

    def _below(self, number: int) -> Contents:
        key = number, self._reach.has_entered_libraries
        if key not in self._contents:
            within = tensors_within(self._reach.objects[number], self._reach.has_entered_libraries)
            self._contents[key] = contents_of(within, self._extents)
        return self._contents[key]


def _chosen(leak: _Leak, candidates: list[_Candidate]) -> tuple[list[Holder], set[int]]:
    """The fewest that hold most, and the addresses of what they hold."""
    epochs = leak.epochs_of(leak.births).bit_count()
    held = {candidate.number: leak.sizes.keys() & candidate.contents.all().keys() for candidate in candidates}
    left = list(candidates)
    holders: list[Holder] = []
    reached: set[int] = set()
    while left and len(holders) < MOST_HOLDERS:
        more = {candidate.number: leak.bytes_of(held[candidate.number] - reached) for candidate in left}

        def merit(candidate: _Candidate, more: dict[int, int] = more) -> tuple[bool, int, int]:
            # What has a bound may hold most while there are few: it comes after all that have none.
            is_enough = more[candidate.number] >= LEAST_SHARE * leak.bytes
            return is_enough and candidate.bound is None, more[candidate.number], -candidate.number

        best = max(left, key=merit)
        left = [candidate for candidate in left if candidate is not best]
        if more[best.number] < LEAST_SHARE * leak.bytes:
            break
        if _gathers(leak.epochs_of(held[best.number]), epochs):
            reached |= held[best.number]
            holders.append(_holder(best, held[best.number], leak))
    return holders, reached


def _gathers(held: int, epochs: int) -> bool:
    """Whether what has tensors of some epochs, given as bits, has enough of all, and old ones among them."""
    first = (held & -held).bit_length() - 1
    return held.bit_count() >= LEAST_EPOCHS * epochs and first * 2 < epochs


def _holder(candidate: _Candidate, held: set[int], leak: _Leak) -> Holder:
    contents = candidate.contents
    owned = [contents.owned[address] for address in held if address in contents.owned]
    in_graphs = [address for address in held if address not in contents.owned]
    carriers = list({id(contents.saved[address]): contents.saved[address] for address in in_graphs}.values())
    size = leak.bytes_of(held)
    # What most of it is in.
    tensors = carriers if 2 * leak.bytes_of(in_graphs) > size else owned
    are_tensors = all(map(live_tensors.is_tensor, tensors))
    have_graph = are_tensors and any(live_tensors.graph_of(tensor) is not None for tensor in tensors)
    return Holder(
        candidate.name,
        len(tensors),
        size,
        size / leak.bytes,
        bool(carriers) or candidate.name.is_through_context or have_graph,
        are_tensors and all(live_tensors.is_plain(tensor) and tensor.numel() == 1 for tensor in tensors),
        candidate.bound,
    )


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
