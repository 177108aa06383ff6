"""From the journal of PyTorch's allocator: what is in use, whose it is, and each one's peak.

Memory belongs to the account that is open when it is asked for: a test's, or a fixture's that several tests share.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable

from ..._native import journal
from ..._native.journal import JournalEntry
from ..._replay import timeline
from ..._replay.timeline import Timeline


@dataclasses.dataclass(slots=True, eq=False)
class Block(timeline.Block):
    account: Account | None = None
    # Of cuBLAS, which takes one for each thread that multiplies: far more than most tests need by themselves.
    is_workspace: bool = False


class Account:
    """What one test, fixture or process asks for and gives back, while the account is open."""

    def __init__(self, held: dict[int, int], used: dict[int, int]) -> None:
        self._is_past_peak = False
        # By GPU, each change: the block, whether it is taken, and what the allocator holds by then.
        self._changes: dict[int, list[tuple[Block, bool, int]]] = collections.defaultdict(list)
        self.begin(held, used)

    def begin(self, held: dict[int, int], used: dict[int, int]) -> None:
        """What is held, and used of the GPU, now is from before."""
        self._held, self._used, self._most_used = dict(held), dict(used), dict(used)

    def end_peak(self) -> None:
        """What is asked for from now on is the account's still, and counts to no peak."""
        self._is_past_peak = True

    def change(self, block: Block, taken: bool, held: int) -> None:
        if not self._is_past_peak:
            self._changes[block.gpu].append((block, taken, held))

    def see_used(self, gpu: int, used: int) -> None:
        if not self._is_past_peak:
            self._most_used[gpu] = max(self._most_used.get(gpu, 0), used)

    @property
    def blocks(self) -> int:
        """That were asked for."""
        return sum(taken for changes in self._changes.values() for _, taken, _ in changes)

    def sites(self) -> set[int]:
        return {block.site for changes in self._changes.values() for block, _, _ in changes}

    def gpu_peak(self) -> int:
        return sum(most - self._used.get(gpu, 0) for gpu, most in self._most_used.items())

    def peak(self, without: Collection[Block] = ()) -> tuple[int, int, collections.Counter[int]]:
        """The most bytes in use at a time, each GPU at its own; what the allocator held of them unused; and the bytes
        of each site then. Neither workspaces nor the blocks in `without` count."""
        left_out = set(without)
        peak = waste = 0
        sites: collections.Counter[int] = collections.Counter()
        for gpu, changes in self._changes.items():
            counted = [change for change in changes if change[0] not in left_out]
            most, index, unused = _peak(counted)
            peak += most
            waste += max(0, unused - self._held.get(gpu, 0)) if most else 0
            for block, taken, _ in counted[: index + 1]:
                if not block.is_workspace:
                    sites[block.site] += block.bytes if taken else -block.bytes
        return peak, waste, +sites


def _peak(changes: list[tuple[Block, bool, int]]) -> tuple[int, int, int]:
    """The most bytes, at which change first, and what was held and unused then."""
    now = workspaces = most = unused = 0
    index = -1
    for number, (block, taken, held) in enumerate(changes):
        size = block.bytes if taken else -block.bytes
        if block.is_workspace:
            workspaces += size
        else:
            now += size
        if now > most:
            most, index, unused = now, number, held - now - workspaces
    return most, index, unused


class Ledger:
    """Follows the journal."""

    def __init__(self, used: Callable[[int], int]) -> None:
        """`used` tells the bytes of a GPU that are in use now, whoever uses them."""
        self._used = used
        self._timeline = Timeline(Block)
        self._stack: list[Account] = []

    @property
    def account(self) -> Account | None:
        """The one that is open, the latest of them."""
        return self._stack[-1] if self._stack else None

    def open(self) -> Account:
        self._stack.append(Account(self._timeline.held, self._used_now()))
        return self._stack[-1]

    def begin_again(self, account: Account) -> None:
        """For the figures of the GPU and of what is held."""
        account.begin(self._timeline.held, self._used_now())

    def close(self, account: Account) -> None:
        account.end_peak()
        self._stack.remove(account)

    def follow(self, entries: Iterable[JournalEntry], frees_workspaces: bool = False) -> None:
        """
        Args:
            frees_workspaces: Whether what is freed was all in use by cuBLAS.
        """
        for entry in entries:
            if entry.gpu < 0:
                continue
            block = self._timeline.take(0, entry)
            is_taken = entry.kind == journal.ALLOCATION
            if block is not None and entry.kind != journal.FREE_COMPLETED:
                block.account = self.account if is_taken else block.account
                block.is_workspace |= frees_workspaces and not is_taken
                if block.account is not None:
                    block.account.change(block, is_taken, self._timeline.held[entry.gpu])
            if self.account is not None and entry.gpu_used >= 0:
                self.account.see_used(entry.gpu, entry.gpu_used)

    def live(self, account: Account | None = None) -> list[Block]:
        """What is in use, of one account or of all."""
        return [block for block in self._timeline.live.values() if account is None or block.account is account]

    def slack(self) -> int:
        """Bytes that are held and not handed out."""
        return max(0, sum(self._timeline.held.values()) - sum(block.bytes for block in self._timeline.live.values()))

    def _used_now(self) -> dict[int, int]:
        return {gpu: self._used(gpu) for gpu in self._timeline.held}
