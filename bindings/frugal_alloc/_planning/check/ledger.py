"""From the journal of PyTorch's allocator: what is in use, whose it is, and each one's peak.

Memory belongs to the window that is open when it is asked for: a test's, or a fixture's that several tests share.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from ..._native import journal
from ..._native.journal import JournalEntry
from .. import timeline
from ..timeline import Timeline


@dataclasses.dataclass(slots=True, eq=False)
class Block(timeline.Block):
    window: Window | None = None
    # Of cuBLAS, which takes one for each thread that multiplies: far more than most tests need by themselves.
    is_workspace: bool = False


class _Change(NamedTuple):
    block: Block
    bytes: int  # less than 0 where it is freed
    unused: int  # what the allocator holds then and the window has not


class Window:
    """What one test, fixture or process asks for and gives back between two moments."""

    def __init__(self) -> None:
        #: What another window within this one has done after this one had begun counts to its figures of the GPU.
        self.is_disturbed = False
        #: How often the driver had been called, by kind, when that began to count, and how often it was from then on.
        self.calls_before: Mapping[str, int] | None = None
        self.calls: Mapping[str, int] | None = None
        #: Bytes that the allocator held then and had not handed out.
        self.slack = 0
        #: What would stay if another test came after this one.
        self.shared: list[Block] | None = None
        self._is_past_peak = False
        self._changes: dict[int, list[_Change]] = collections.defaultdict(list)  # by GPU
        self._live: collections.Counter[int] = collections.Counter()

    def begin(self, held: Mapping[int, int], used: Mapping[int, int]) -> None:
        """What is held, and used of the GPU, now is from before."""
        self._held, self._used, self._most_used = dict(held), dict(used), dict(used)

    def end_peak(self) -> None:
        """What is asked for from now on is the window's still, and counts to no peak."""
        self._is_past_peak = True

    def change(self, block: Block, size: int, held: int) -> None:
        if not self._is_past_peak:
            self._live[block.gpu] += size
            self._changes[block.gpu].append(_Change(block, size, held - self._live[block.gpu]))

    def see_used(self, gpu: int, used: int) -> None:
        if not self._is_past_peak:
            self._most_used[gpu] = max(self._most_used.get(gpu, 0), used)

    @property
    def sites(self) -> set[int]:
        """That have asked for memory; none: nobody has."""
        return {change.block.site for changes in self._changes.values() for change in changes}

    def gpu_peak(self) -> int:
        return sum(most - self._used.get(gpu, 0) for gpu, most in self._most_used.items())

    def peak(self, without: Collection[Block] = ()) -> tuple[int, int, collections.Counter[int]]:
        """The most bytes in use at a time, each GPU at its own; what the allocator held of them unused; and the bytes
        of each site then. Neither workspaces nor the blocks in `without` count."""
        left_out = set(without)
        peak = waste = 0
        sites: collections.Counter[int] = collections.Counter()
        for gpu, changes in self._changes.items():
            counted = [change for change in changes if not change.block.is_workspace and change.block not in left_out]
            live = list(itertools.accumulate(change.bytes for change in counted))
            if (most := max(live, default=0)) > 0:
                before_and_at = counted[: live.index(most) + 1]
                peak += most
                waste += max(0, before_and_at[-1].unused - self._held.get(gpu, 0))
                for change in before_and_at:
                    sites[change.block.site] += change.bytes
        return peak, waste, +sites


class Ledger:
    """Follows the journal."""

    def __init__(self, used: Callable[[int], int]) -> None:
        """`used` tells the bytes of a GPU that are in use now, whoever uses them."""
        self._used = used
        self._timeline = Timeline(Block)
        #: Those that are open; memory belongs to the last of them.
        self.windows: list[Window] = []

    def open(self) -> Window:
        self.windows.append(Window())
        self.begin_again(self.windows[-1])
        return self.windows[-1]

    def begin_again(self, window: Window) -> None:
        """For the figures of the GPU and of what is held."""
        window.begin(self._timeline.held, {gpu: self._used(gpu) for gpu in self._timeline.held})

    def close(self, window: Window) -> None:
        window.end_peak()
        self.windows.remove(window)

    def follow(self, entries: Iterable[JournalEntry], frees_workspaces: bool = False) -> None:
        """
        Args:
            frees_workspaces: Whether what is freed was all in use by cuBLAS.
        """
        for entry in entries:
            if entry.gpu < 0:
                continue
            window = self.windows[-1] if self.windows else None
            block = self._timeline.take(0, entry)
            is_taken = entry.kind == journal.ALLOCATION
            if block is not None and entry.kind != journal.FREE_COMPLETED:
                block.window = window if is_taken else block.window
                block.is_workspace |= frees_workspaces and not is_taken
                if block.window is not None:
                    size = block.bytes if is_taken else -block.bytes
                    block.window.change(block, size, self._timeline.held[entry.gpu])
            if window is not None and entry.gpu_used >= 0:
                window.see_used(entry.gpu, entry.gpu_used)

    def live(self, window: Window | None = None) -> list[Block]:
        """What is in use, of one window or of all."""
        return [block for block in self._timeline.live.values() if window is None or block.window is window]

    def extents(self, window: Window) -> list[tuple[int, int]]:
        """Address and bytes of what is in use of a window."""
        return [(block.address, block.bytes) for block in self.live(window)]

    def slack(self) -> int:
        """Bytes that are held and not handed out."""
        return max(0, sum(self._timeline.held.values()) - sum(block.bytes for block in self._timeline.live.values()))
