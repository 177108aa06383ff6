"""Which variables of a running frame are never read again, by its bytecode.

Everything here errs towards "read": what is called dead may be deleted before the statement that runs now.
"""

from __future__ import annotations

import bisect
import dis
import functools
import sys
from collections.abc import Callable, Iterable
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
_SCOPES = ("FAST", "NAME", "GLOBAL", "DEREF", "CLASSDEREF", "CLOSURE")
# With these a function reads variables that its bytecode does not name.
_READS_ANY = frozenset(("locals", "vars", "eval", "exec", "dir", "globals"))


class Instruction(NamedTuple):
    offset: int
    line: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    deletes: tuple[str, ...]
    successors: tuple[int, ...]  # indices


class Flow:
    """The variables that a code object reads and writes, and where control goes."""

    def __init__(self, code: CodeType) -> None:
        self.instructions = _instructions(code)
        self._offsets = [instruction.offset for instruction in self.instructions]
        self._is_module = code.co_name == "<module>"
        # Read by functions that were made here, at times that are not known.
        self.always_read = set(code.co_cellvars) | set(code.co_freevars)
        if self._is_module:
            self.always_read |= read_in_nested(code)
        own = {name for instruction in self.instructions for name in instruction.reads}
        self.reads_any = bool(_READS_ANY & (own | read_in_nested(code)))
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
        return [name for name in names if name not in read and (name in self.names or not self._is_module)]

    def read_after(self, offset: int) -> set[str]:
        """Variables that may be read after the instruction at `offset` has begun, before they are bound again."""
        return set(self.names) if self.reads_any else self.read_here_after(offset) | self.always_read

    def read_here_after(self, offset: int) -> set[str]:
        """As :meth:`read_after`, by the code itself."""
        live = self._live_at_entry
        return set().union(*(live[i] for i in self._at(offset).successors))

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

    def _at(self, offset: int) -> Instruction:
        # A frame may stand in the cache entries that follow an instruction.
        return self.instructions[max(bisect.bisect_right(self._offsets, offset) - 1, 0)]

    @functools.cached_property
    def _live_at_entry(self) -> list[frozenset[str]]:
        instructions = self.instructions
        live: list[frozenset[str]] = [frozenset()] * len(instructions)
        changed = True
        while changed:
            changed = False
            for i in range(len(instructions) - 1, -1, -1):
                instruction = instructions[i]
                after = frozenset().union(*(live[j] for j in instruction.successors))
                before = (after - {*instruction.writes, *instruction.deletes}) | frozenset(instruction.reads)
                if before != live[i]:
                    live[i] = before
                    changed = True
        return live


def _instructions(code: CodeType) -> list[Instruction]:
    raw = [instruction for instruction in dis.get_instructions(code) if instruction.opname != "CACHE"]
    index = {instruction.offset: i for i, instruction in enumerate(raw)}
    handlers = _handlers(code, raw)
    result, line = [], code.co_firstlineno
    for i, instruction in enumerate(raw):
        line = _line(instruction) or line
        successors = []
        if instruction.opname not in _NO_FALL_THROUGH and i + 1 < len(raw):
            successors.append(i + 1)
        if instruction.opcode in _JUMPS and instruction.argval in index:
            successors.append(index[instruction.argval])
        successors.extend(index[target] for target in handlers(instruction.offset) if target in index)
        result.append(Instruction(instruction.offset, line, *_access(instruction), tuple(successors)))
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


def _access(instruction: dis.Instruction) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The variables that an instruction reads, writes and deletes; a joined one ("LOAD_FAST_LOAD_FAST") has several."""
    name = instruction.opname
    values = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    # LOAD_FAST_AND_CLEAR saves what a comprehension's variable hides; that is no use of it.
    if not any(scope in name for scope in _SCOPES) or name == "LOAD_FAST_AND_CLEAR":
        return (), (), ()
    if not all(isinstance(value, str) for value in values):
        return (), (), ()
    kinds = [part for part in name.split("_") if part in ("LOAD", "STORE", "DELETE")]
    kinds += kinds[-1:] * (len(values) - len(kinds))
    return tuple(
        tuple(value for kind, value in zip(kinds, values, strict=False) if kind == wanted)
        for wanted in ("LOAD", "STORE", "DELETE")
    )


@functools.lru_cache(maxsize=256)
def read_in_nested(code: CodeType) -> frozenset[str]:
    """The variables that the functions and classes within a code object read: no attributes, as `eval` of a model."""
    nested = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset().union(*(reads_of(one) | read_in_nested(one) for one in nested))


def reads_of(code: CodeType) -> frozenset[str]:
    """The variables that a code object itself reads."""
    instructions = (_access(instruction) for instruction in dis.get_instructions(code))
    return frozenset(name for reads, _, _ in instructions for name in reads).union(code.co_freevars)
