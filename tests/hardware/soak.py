"""Random tensors on four streams under an allocator, each filled with a tag and compared on the device before it is
freed: ``python -m hardware.soak TASK``, TASK and the outcome in JSON.

Work is behind the host, so that memory is handed on while what used it before is still to run. A byte that is handed
on too early, or is seen at two places that are not one memory, is part of a tag that does not compare.
"""

from __future__ import annotations

import dataclasses
import json
import random
import sys
import time
from typing import Any

STREAMS = 4
#: At clock rates from 1 to 2 GHz, up to 0.1 ms.
_MOST_CYCLES = 200_000
#: So many rounds the host may be ahead at most.
_ROUNDS_AHEAD = 400
_ROUNDS_PER_RELEASE = 1500
#: So many numbers are compared at a time.
_PIECE = 16 << 20
#: Of the limit: so much is live at most, so that what is free lies in pieces.
_FULL = 0.9


@dataclasses.dataclass
class _Held:
    tensor: Any
    tag: int
    stream: int


class Soak:
    def __init__(self, torch: Any, chance: random.Random, limit: int) -> None:
        self._torch, self._chance, self._limit = torch, chance, limit - STREAMS * _PIECE
        self._streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        # What was found wrong, by stream: added up on the device.
        self._wrong = [torch.zeros(1, dtype=torch.int64, device="cuda") for _ in range(STREAMS)]
        # For the comparison, which is then no allocation of a size that depends on the tensor.
        self._differs = [torch.empty(_PIECE, dtype=torch.bool, device="cuda") for _ in range(STREAMS)]
        torch.cuda.synchronize()
        self._held: list[_Held] = []
        self._live = 0
        self.rounds = self.compared = self.handed_over = self.out_of_memory = 0

    def go_on(self) -> None:
        """One round: a tensor more, and as many fewer as that takes."""
        size = self._size()
        while self._live + size > self._limit * _FULL:
            self._let_go()
        stream = self._chance.randrange(STREAMS)
        tag = self._chance.randrange(1, 1 << 31)
        with self._torch.cuda.stream(self._streams[stream]):
            try:
                tensor = self._torch.empty(size // 4, dtype=self._torch.int32, device="cuda")
            except self._torch.OutOfMemoryError:
                self.out_of_memory += 1
                for _ in range(min(len(self._held), 8)):
                    self._let_go()
                return
            self._torch.cuda._sleep(self._chance.randrange(_MOST_CYCLES))
            tensor.fill_(tag)
        self._held.append(_Held(tensor, tag, stream))
        self._live += size
        self.rounds += 1
        if self.rounds % _ROUNDS_AHEAD == 0:
            self._torch.cuda.synchronize()
        if self.rounds % _ROUNDS_PER_RELEASE == 0:
            self._torch.cuda.empty_cache()

    def finish(self) -> int:
        """Compares all that is left; how many tensors, or pieces of large ones, did not hold their tag."""
        while self._held:
            self._let_go()
        self._torch.cuda.synchronize()
        return sum(int(wrong.item()) for wrong in self._wrong)

    def _size(self) -> int:
        """From 4 KiB to a sixteenth of the limit, each magnitude as often as the next."""
        magnitude = self._chance.uniform(12, (self._limit // 16).bit_length() - 1)
        return int(2**magnitude) // 4 * 4

    def _let_go(self) -> None:
        held = self._held.pop(self._chance.randrange(len(self._held)))
        self._live -= held.tensor.numel() * 4
        user = held.stream
        if self._chance.random() < 0.25:
            user = self._chance.randrange(STREAMS)
        if user != held.stream:
            self._streams[user].wait_stream(self._streams[held.stream])
            held.tensor.record_stream(self._streams[user])
            self.handed_over += 1
        with self._torch.cuda.stream(self._streams[user]):
            self._torch.cuda._sleep(self._chance.randrange(_MOST_CYCLES))
            for piece in held.tensor.split(_PIECE):
                differs = self._differs[user][: piece.numel()]
                self._torch.ne(piece, held.tag, out=differs)
                self._wrong[user].add_(differs.any())
        self.compared += 1


def main() -> None:
    task = json.loads(sys.argv[1])
    import torch

    if task["allocator"] == "frugal":
        import frugal_alloc

        frugal_alloc.enable(track="off")
    torch.cuda.set_per_process_memory_fraction(task["limit"] / torch.cuda.mem_get_info()[1])
    soak = Soak(torch, random.Random(task["seed"]), task["limit"])
    end = time.monotonic() + task["seconds"]
    while soak.rounds < task["rounds"] and time.monotonic() < end:
        soak.go_on()
    wrong = soak.finish()
    found = {name: getattr(soak, name) for name in ("rounds", "compared", "handed_over", "out_of_memory")}
    found |= {"wrong": wrong, "stitches": None, "unmaps": None}
    if task["allocator"] == "frugal":
        torch.cuda.empty_cache()
        stats = frugal_alloc.memory_stats()
        found |= {"stitches": stats["stitches"], "unmaps": stats["driver_unmap_calls"]}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
