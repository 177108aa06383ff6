"""Runs a program, as a script, that can have so many MiB of the GPU: python in_room.py MIB PROGRAM."""

import os
import runpy
import sys
import threading

import frugal_alloc
import torch

MIB = 1 << 20


def fill(room: int) -> None:
    """One block of PyTorch's own allocator's has the rest: ours would take 70 µs of driver time for each 2 MiB."""
    frugal_alloc.enable()
    use_libraries()
    frugal_alloc.disable()
    free, _ = torch.cuda.mem_get_info()
    # No variable of a frame that is running, which an error would look at.
    fill.rest = torch.empty(max(0, free - room) // (2 * MIB) * 2 * MIB, dtype=torch.uint8, device="cuda")
    frugal_alloc.enable()


def use_libraries() -> None:
    """What cuBLAS keeps from its first use on, in this thread and in autograd's, is no part of the room.

    This thread comes first: it keeps its own, so that the other one has to make a second.
    """

    def multiply() -> None:
        torch.ones(16, 16, device="cuda") @ torch.ones(16, 16, device="cuda")

    other = threading.Thread(target=multiply)
    multiply()
    other.start()
    other.join()
    # It leaves what it has to the next thread as it ends, which is after join().
    while os.path.exists(f"/proc/self/task/{other.native_id}"):
        os.sched_yield()


if __name__ == "__main__":
    fill(int(sys.argv[1]) * MIB)
    del sys.argv[:2]
    runpy.run_path(sys.argv[0], run_name="__main__")
