"""Which variables of a running frame are never read again, by its bytecode; and which of its module a function reads.

A local variable, an attribute, or what a comprehension goes over may have the name of a module's variable. Everything
here errs towards "read": what is called dead may be deleted before the statement that runs now.
"""

from __future__ import annotations

import bisect
import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import NamedTuple

# After these the next instruction does not follow.
_NO_FALL_THROUGH = frozenset(
    (
        "RETURN_VALUE",
        "RETURN_CONST",
        "RAISE_VARARGS",
        "RERAISE",
        "JUMP_FORWARD",
        "JUMP_ABSOLUTE",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "JUMP_NO_INTERRUPT",
    )
)
# In the names of instructions: which variables they are for.
_OF_FUNCTION = ("FAST", "DEREF", "CLOSURE")
_OF_MODULE = ("NAME", "GLOBAL")
_OF_CLOSURE = ("DEREF",)
# With these a function reads variables that its bytecode does not name.
_READS_ANY = frozenset(("locals", "vars", "eval", "exec", "dir", "globals"))
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
# After them a comprehension without a function of its own gives a variable back what it had before.
_ENDS_OF_COMPREHENSIONS = ("SWAP", "END_FOR", "POP_TOP")


class Instruction(NamedTuple):
    offset: int
    line: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    deletes: tuple[str, ...]
    successors: tuple[int, ...]  # indices
    makes: CodeType | None  # of a function, class or comprehension


class Flow:
    """The variables of its own that a code object reads and writes, and where control goes."""

    def __init__(self, code: CodeType) -> None:
        self._is_function = is_function(code)
        scopes = _OF_FUNCTION if self._is_function else _OF_MODULE
        self.instructions = _instructions(code, scopes)
        self._offsets = [instruction.offset for instruction in self.instructions]
        # Functions that were made here may change it meanwhile, or it is another function's.
        self.changed = _changed_within(code, "DEREF" if self._is_function else "GLOBAL").union(code.co_freevars)
        # Read by them at times that are not known.
        self.always_read = self.changed | _read_later(code, _OF_CLOSURE if self._is_function else _OF_MODULE)
        self.reads_any = any(_READS_ANY & _reads(inner, _OF_MODULE) for inner in (code, *nested(code)))
        self.names = {name for i in self.instructions for name in i.reads + i.writes + i.deletes}
        self.deleted = {name for instruction in self.instructions for name in instruction.deletes}

    def read_in_lines(self, first: int, last: int) -> set[str]:
        return {n for instruction in self.instructions if first <= instruction.line <= last for n in instruction.reads}

    def written_in_lines(self, first: int, last: int) -> set[str]:
        return {n for instruction in self.instructions if first <= instruction.line <= last for n in instruction.writes}

    def dead(self, names: Iterable[str], offset: int, first: int, last: int) -> list[str]:
        """Those of the frame's variables that neither these lines read, which are about to run or run at the offset,
        nor anything after them before it binds them again."""
        if self.reads_any:
            return []
        read = self.read_after(offset) | self.read_in_lines(first, last)
        return [name for name in names if name not in read and (name in self.names or self._is_function)]

    def read_after(self, offset: int) -> set[str]:
        """Variables that may be read after the instruction at `offset` has begun, before they are bound again."""
        return set(self.names) if self.reads_any else self.read_here_after(offset) | self.always_read

    def read_here_after(self, offset: int) -> set[str]:
        """As :meth:`read_after`, by the code itself."""
        live = self._live_at_entry
        return set().union(*(live[i] for i in self._at(offset).successors))

    def made_after(self, offset: int, first: int, last: int) -> list[CodeType]:
        """Of the functions and the like that these lines make, or that may be made after the instruction at `offset`
        has begun."""
        waiting, seen = list(self._at(offset).successors), set()
        while waiting:
            if (i := waiting.pop()) not in seen:
                seen.add(i)
                waiting += self.instructions[i].successors
        made = [one for i, one in enumerate(self.instructions) if i in seen or first <= one.line <= last]
        return [one.makes for one in made if one.makes is not None]

    def alive_at_loops(self) -> set[str]:
        """Variables that may be read after some loop has begun anew, before they are bound again."""
        live = self._live_at_entry
        again = (j for i, instruction in enumerate(self.instructions) for j in instruction.successors if j <= i)
        return set().union(*(live[j] for j in again))

    def surely_bound(self, name: str, first: int, last: int, is_argument: bool) -> bool:
        """Whether the variable has a value each time that control comes to the lines, also if it is deleted there."""
        waiting = [] if is_argument else [0]
        if name not in self.written_in_lines(first, last):
            within = [one for one in self.instructions if first <= one.line <= last]
            following = {j for one in within for j in one.successors}
            waiting += (j for j in following if not first <= self.instructions[j].line <= last)
        for instruction in self.instructions:
            if name in instruction.deletes:
                waiting.extend(instruction.successors)
        seen = set()
        while waiting:
            i = waiting.pop()
            if i in seen:
                continue
            seen.add(i)
            instruction = self.instructions[i]
            if first <= instruction.line <= last:
                return False
            if name not in instruction.writes:
                waiting.extend(instruction.successors)
        return True

    def adds_up(self, name: str, line: int) -> bool:
        """Whether the line comes to run again before another one binds the variable anew."""
        waiting = [j for one in self.instructions if one.line == line for j in one.successors]
        waiting = [j for j in waiting if self.instructions[j].line != line]
        seen = set()
        while waiting:
            i = waiting.pop()
            instruction = self.instructions[i]
            if instruction.line == line:
                return True
            if i not in seen and name not in instruction.writes:
                seen.add(i)
                waiting.extend(instruction.successors)
        return False

    def index_at(self, offset: int) -> int:
        """Of the instruction that runs: a frame may stand in the cache entries that follow it."""
        return max(bisect.bisect_right(self._offsets, offset) - 1, 0)

    def _at(self, offset: int) -> Instruction:
        return self.instructions[self.index_at(offset)]

    @functools.cached_property
    def _live_at_entry(self) -> list[frozenset[str]]:
        return _live_at_entry(self.instructions)


def _live_at_entry(instructions: list[Instruction]) -> list[frozenset[str]]:
    """For each instruction, the variables that may be read from there on, before they are bound again."""
    live: list[frozenset[str]] = [frozenset()] * len(instructions)
    changed = True
    while changed:
        changed = False
        for i in range(len(instructions) - 1, -1, -1):
            instruction = instructions[i]
            after = frozenset().union(*(live[j] for j in instruction.successors))
            # One that does both, STORE_FAST_LOAD_FAST, writes first.
            before = after.union(instruction.reads) - {*instruction.writes, *instruction.deletes}
            if before != live[i]:
                live[i] = before
                changed = True
    return live


def _instructions(code: CodeType, scopes: tuple[str, ...]) -> list[Instruction]:
    """With the variables of some scopes."""
    raw = [instruction for instruction in dis.get_instructions(code) if instruction.opname != "CACHE"]
    index = {instruction.offset: i for i, instruction in enumerate(raw)}
    hidden = {one.argval for one in raw if one.opname == "LOAD_FAST_AND_CLEAR"}
    handlers = _handlers(code, raw)
    result, line, before = [], code.co_firstlineno, ""
    for i, instruction in enumerate(raw):
        line = _line(instruction) or line
        successors = []
        if instruction.opname not in _NO_FALL_THROUGH and i + 1 < len(raw):
            successors.append(i + 1)
        if instruction.opcode in _JUMPS and instruction.argval in index:
            successors.append(index[instruction.argval])
        successors.extend(index[target] for target in handlers(instruction.offset) if target in index)
        reads, writes, deletes = _access(instruction, scopes)
        if not instruction.opname.startswith("STORE_FAST"):
            before = instruction.opname
        elif before in _ENDS_OF_COMPREHENSIONS:
            writes = tuple(name for name in writes if name not in hidden)
        makes = instruction.argval if isinstance(instruction.argval, CodeType) else None
        if makes is not None and scopes == _OF_MODULE and _runs_at_once(makes):
            reads += tuple(_reads(makes, scopes))
        result.append(Instruction(instruction.offset, line, reads, writes, deletes, tuple(successors), makes))
    return result


_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs, *getattr(dis, "hasjump", ())))


def _line(instruction: dis.Instruction) -> int | None:
    positions = getattr(instruction, "positions", None)
    if positions is not None and positions.lineno is not None:
        return positions.lineno
    starts = instruction.starts_line
    # From 3.13 on a bool, with the number beside it.
    return getattr(instruction, "line_number", None) if isinstance(starts, bool) else starts


def _handlers(code: CodeType, raw: list[dis.Instruction]) -> Callable[[int], list[int]]:
    """Where an exception at an offset may lead."""
    if sys.version_info >= (3, 11):
        entries = dis.Bytecode(code).exception_entries
        return lambda offset: [entry.target for entry in entries if entry.start <= offset < entry.end]
    targets = [instruction.argval for instruction in raw if instruction.opname.startswith("SETUP_")]
    return lambda offset: targets


def _access(
    instruction: dis.Instruction, scopes: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The variables that an instruction reads, writes and deletes; a joined one ("LOAD_FAST_LOAD_FAST") has several."""
    name = instruction.opname
    values = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    # LOAD_FAST_AND_CLEAR saves what a comprehension's variable hides; that is no use of it.
    if not any(scope in name for scope in scopes) or name == "LOAD_FAST_AND_CLEAR":
        return (), (), ()
    if not all(isinstance(value, str) for value in values):
        return (), (), ()
    kinds = [part for part in name.split("_") if part in ("LOAD", "STORE", "DELETE")]
    kinds += kinds[-1:] * (len(values) - len(kinds))
    return tuple(
        tuple(value for kind, value in zip(kinds, values, strict=False) if kind == wanted)
        for wanted in ("LOAD", "STORE", "DELETE")
    )


def is_function(code: CodeType) -> bool:
    """Whether a code object has local variables, as no module has, and no body of a class."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def nested(code: CodeType) -> Iterator[CodeType]:
    """The code objects within another, at any depth."""
    for inner in _made_in(code):
        yield inner
        yield from nested(inner)


def _made_in(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _runs_at_once(code: CodeType) -> bool:
    """Whether a code object runs where it is made, and no more."""
    return code.co_name in _COMPREHENSIONS or not is_function(code)


def module_variables(code: CodeType) -> frozenset[str]:
    """The variables of its module that a function reads when it is called, or a class when it is made.

    Functions within it are not counted, since they run at another time.
    """
    return _reads(code, _OF_MODULE)


@functools.lru_cache(maxsize=1024)
def _reads(code: CodeType, scopes: tuple[str, ...]) -> frozenset[str]:
    """The variables that a code object itself reads of its module, or (_OF_CLOSURE) of the functions around it."""
    instructions = _instructions(code, scopes)
    read = frozenset(name for instruction in instructions for name in instruction.reads)
    if scopes == _OF_CLOSURE:
        return read.intersection(code.co_freevars)
    if is_function(code) or code.co_name == "<module>":
        return read
    # What a class has not bound itself.
    deleted = {name for instruction in instructions for name in instruction.deletes}
    return read & (_live_at_entry(instructions)[0] | deleted)


def _read_later(code: CodeType, scopes: tuple[str, ...]) -> frozenset[str]:
    """The variables that functions made within a code object read when they are called."""
    found: frozenset[str] = frozenset()
    for inner in _made_in(code):
        if _runs_at_once(inner):
            found |= _read_later(inner, scopes)
        else:
            found = found.union(*(_reads(one, scopes) for one in (inner, *nested(inner))))
    return found


def _changed_within(code: CodeType, scope: str) -> frozenset[str]:
    """The variables from outside that functions and classes within a code object bind or delete."""
    return frozenset().union(*(_changed(inner, scope) for inner in nested(code)))


@functools.lru_cache(maxsize=1024)
def _changed(code: CodeType, scope: str) -> frozenset[str]:
    instructions = _instructions(code, (scope,))
    return frozenset(name for instruction in instructions for name in instruction.writes + instruction.deletes)
