"""Why memory ran out, by name: what the error, the report's headline and the guide say of each."""

from __future__ import annotations

from typing import NamedTuple


class Diagnosis(NamedTuple):
    """One of an out-of-memory error."""

    begins: str  # the error's sentence
    short: str  # in tables
    headline: str  # of a report, after "Out of memory: "
    means: str  # as docs/out_of_memory.md has it, like the next
    helps: str


#: By name. What the library itself tells apart is too_big, leak, fragmentation and outside.
DIAGNOSES = {
    "too_big": Diagnosis(
        "Too big",
        "too big",
        "this step needs more than the GPU has",
        "live tensors and the request exceed the memory",
        "less at a time",
    ),
    "leak": Diagnosis(
        "Leak",
        "leak",
        "memory leaked until none was left",
        "the request would fit without what earlier epochs left behind",
        "free it: [leaks](leaks.md)",
    ),
    "filling_cache": Diagnosis(
        "Leak, or a cache that still fills",
        "leak, or a cache",
        "memory leaked, or a cache filled, until none was left",
        "the same in a program without training, where a filling cache looks the same",
        "bound the cache",
    ),
    "fragmentation": Diagnosis(
        "Fragmentation",
        "fragmentation",
        "free memory is there, but in pieces",
        "enough is free, but in 2 MiB pages that small live tensors share",
        "allocate these tensors before the large ones",
    ),
    "held_by_pools": Diagnosis(
        "Held by pools",
        "held by pools",
        "CUDA graphs and MemPools keep memory that no tensor uses",
        "CUDA graphs and `MemPool`s keep enough memory that no tensor uses",
        "reset those not needed",
    ),
    "outside": Diagnosis(
        "Memory outside PyTorch",
        "memory outside PyTorch",
        "something outside of PyTorch holds the GPU's memory",
        "the CUDA context, libraries and other processes hold too much",
        "`nvidia-smi` lists the processes",
    ),
    "refused": Diagnosis(
        "Refused",
        "refused",
        "the driver refused the last of the GPU's memory",
        "the driver needs the last memory itself",
        "less at a time",
    ),
    "host": Diagnosis(
        "Host memory",
        "host memory",
        "other things hold the host's memory, which is the GPU's",
        "the GPU uses the host's memory, and other things fill it",
        "end other programs, or keep less on the host",
    ),
}
