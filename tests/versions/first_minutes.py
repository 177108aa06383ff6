"""What any program does with GPU memory, once through, on a GPU of 4 GiB: the import test of each torch version.

    frugal-alloc simulate --memory 4GiB -- python tests/versions/first_minutes.py

Prints the version of torch when all went well. Needs nothing but torch and an installed frugal_alloc.
"""

import importlib.metadata
import sys
import warnings

import frugal_alloc
import torch
from frugal_alloc import _native

MIB = 1 << 20
GIB = 1 << 30


def empty(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def is_ours(tensor: torch.Tensor) -> bool:
    return _native.load().owns(tensor.data_ptr())


def check(claim: bool, what: str) -> None:
    if not claim:
        sys.exit(f"torch {torch.__version__}: not so: {what}")


def allocate_and_free() -> None:
    before = torch.cuda.memory_stats()
    tensors = [empty(size * MIB) for size in (1, 3, 64, 500)]
    check(all(map(is_ours, tensors)), "tensors are in frugal_alloc's memory")
    stats = torch.cuda.memory_stats()
    check(set(before) == set(stats), "memory_stats keeps its keys")
    grown = stats["allocated_bytes.all.current"] - before["allocated_bytes.all.current"]
    check(
        grown == 568 * MIB == frugal_alloc.memory_stats()["allocated_bytes"], "memory_stats counts what was allocated"
    )
    check(torch.cuda.memory_reserved() >= torch.cuda.memory_allocated() >= 568 * MIB, "reserved covers allocated")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        tensors.append(empty(2 * MIB))
    tensors[-1].record_stream(torch.cuda.current_stream())
    del tensors
    torch.cuda.synchronize()
    check(frugal_alloc.memory_stats()["allocated_bytes"] == 0, "freed memory is counted as freed")


def stitch() -> None:
    torch.cuda.empty_cache()  # free memory that is whole would serve
    held = [empty(6 * MIB) for _ in range(500)]  # 3 of 4 GiB: new memory can't serve what follows
    before = frugal_alloc.memory_stats()
    del held[::2]
    large = empty(1400 * MIB)
    large.fill_(1)  # touches every page of it
    after = frugal_alloc.memory_stats()
    check(after["stitches"] > before["stitches"], "free pieces are joined")
    check(after["reserved_bytes"] <= before["reserved_bytes"] + 64 * MIB, "a stitch takes no more memory")


def take_snapshots() -> None:
    # Of the C++ frames, too, PyTorch makes a snapshot only where binutils are installed.
    torch.cuda.memory._record_memory_history(max_entries=100, stacks="python")
    tensor = empty(5 * MIB)
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    addresses = [block["address"] for block in blocks if block["state"] == "active_allocated"]
    check(tensor.data_ptr() in addresses, "the snapshot shows the tensor's block")
    actions = {entry["action"] for trace in snapshot["device_traces"] for entry in trace}
    check("alloc" in actions, "the history shows the allocation")


def run_out_of_memory() -> None:
    # More than any GPU has is refused before a verdict is thought about.
    for size, told in ((5 * GIB, ("\nToo big: ", "first_minutes.py:")), (1 << 61, ())):
        try:
            empty(size)
        except torch.OutOfMemoryError as error:
            check(str(error).startswith("CUDA out of memory. Tried to allocate "), "an OOM begins as PyTorch's does")
            check(all(words in str(error) for words in told), "an OOM goes on with its verdict and the line")
        else:
            check(False, f"{size} bytes are too many for this GPU")
    check(is_ours(empty(2 * GIB)), "memory is served after an OOM")


def use_a_pool() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensor = empty(3 * MIB)
    check(tensor.numel() == 3 * MIB, "a MemPool serves memory")


def find_a_leak() -> None:
    kept = []
    for _ in range(9):
        kept.append(torch.ones(MIB, device="cuda"))
        frugal_alloc.epoch_end()
    report = frugal_alloc.report()
    told = [(verdict["kind"], verdict["bytes_per_epoch"]) for verdict in report.document["verdicts"]]
    check(told == [("leak", 4 * MIB)], "a leak is told with its bytes for each epoch")
    check("list 'kept'" in str(report) and "first_minutes.py:" in str(report), "a leak has its holder and its line")


def main() -> None:
    warnings.simplefilter("error")
    older = empty(7 * MIB)
    frugal_alloc.enable()
    allocate_and_free()
    stitch()
    take_snapshots()
    run_out_of_memory()
    use_a_pool()
    find_a_leak()
    ours = empty(9 * MIB)
    frugal_alloc.disable()
    check(not is_ours(empty(MIB)), "PyTorch's allocator serves new memory after disable()")
    check(is_ours(ours) and not is_ours(older), "tensors stay where they were")
    del ours, older
    torch.cuda.synchronize()
    check(frugal_alloc.memory_stats()["allocated_bytes"] == 0, "our memory is freed after disable()")
    check(torch.cuda.memory_allocated() == 0, "no memory is left over")
    built, running = _native.load().torch_versions()
    check(built == running, "the library knows its torch")
    print(f"torch {torch.__version__}, frugal_alloc {importlib.metadata.version('frugal_alloc')}: all is well")


if __name__ == "__main__":
    main()
