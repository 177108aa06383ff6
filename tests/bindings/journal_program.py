"""What test_journal.py runs, each in a process of its own: small programs with a journal, and what they found."""

from __future__ import annotations

import collections
import os
import threading
from pathlib import Path
from typing import Any

import frugal_alloc
import torch
from frugal_alloc import _native
from frugal_alloc._native import journal

MIB = 1 << 20


def begin(allocator: str) -> Any:
    """The library, with its journal started before CUDA is."""
    library = _native.load()
    if allocator == "frugal":
        frugal_alloc.enable()
    assert library.journal_start()
    assert not torch.cuda.is_initialized()
    return library


def blocks_of(entries: list[Any]) -> list[Any]:
    return [entry for entry in entries if entry.kind <= journal.FREE_COMPLETED]


def peak_of(entries: list[Any]) -> tuple[int, int]:
    """The most bytes that were asked for and not let go, and those at the end."""
    live: dict[int, int] = {}
    now = peak = 0
    for entry in entries:
        if entry.kind == journal.ALLOCATION:
            assert entry.address not in live
            live[entry.address] = entry.bytes
            now += entry.bytes
        elif entry.kind == journal.FREE_COMPLETED:
            assert live.pop(entry.address) == entry.bytes
            now -= entry.bytes
        peak = max(peak, now)
    return peak, now


def place_of(library: Any, number: int) -> tuple[str, int]:
    """The function of this file that a site lies in, and how many lines below its first."""
    for frame in library.site(number).frames:
        if frame.file.endswith(Path(__file__).name):
            name = frame.function.rsplit(".", 1)[-1]
            return name, frame.line - globals()[name].__code__.co_firstlineno
    return "", 0


def train(steps: int) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(300, 501), torch.nn.ReLU(), torch.nn.Linear(501, 7)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        model(torch.ones(33, 300, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def use_streams() -> None:
    """A block is freed while another stream may use it, so that the two events of a free lie apart."""
    side = torch.cuda.Stream()
    for size in (5 * MIB + 3, 700, 30 * MIB + 1):
        kept = torch.empty(size, dtype=torch.uint8, device="cuda")
        with torch.cuda.stream(side):
            kept.zero_()
        kept.record_stream(side)
        del kept
        torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")


def work(allocator: str) -> dict[str, Any]:
    library = begin(allocator)
    if allocator == "frugal, later":
        train(2)
        frugal_alloc.enable()
    train(3)
    use_streams()
    torch.cuda.empty_cache()
    train(2)
    torch.cuda.synchronize()
    figures = torch.cuda.memory_stats()
    entries = list(library.journal_read())
    peak, now = peak_of(entries)
    taken, given = (
        sum(entry.bytes for entry in entries if entry.kind == kind)
        for kind in (journal.SEGMENT_TAKEN, journal.SEGMENT_GIVEN)
    )
    return {
        "peak": peak,
        "now": now,
        "held": taken - given,
        "given": given,
        "torch_peak": figures["requested_bytes.all.peak"],
        "torch_now": figures["requested_bytes.all.current"],
        "torch_held": figures["reserved_bytes.all.current"],
        "allocations": sum(entry.kind == journal.ALLOCATION for entry in entries),
        "torch_allocations": figures["allocation.all.allocated"],
        "frugal_allocations": frugal_alloc.memory_stats()["allocations"] if "frugal" in allocator else 0,
        "gpus": sorted({entry.gpu for entry in entries}),
        "on_simulation": min(entry.gpu_used for entry in entries) >= 0,
    }


def double(values: torch.Tensor) -> torch.Tensor:
    return values.sigmoid()


def find_sites(allocator: str) -> dict[str, Any]:
    library = begin(allocator)
    values = torch.ones(5 * MIB // 4, device="cuda", requires_grad=True)
    library.journal_mark("forward")
    result = double(values)
    library.journal_mark("backward")
    result.backward(torch.ones_like(result))
    texts = library.journal_texts()
    phase, found = "", collections.defaultdict(list)
    for entry in library.journal_read():
        if entry.kind == journal.MARK:
            phase = texts[entry.site]
        elif entry.kind == journal.ALLOCATION:
            site = library.site(entry.site)
            forward = place_of(library, site.forward) if site.forward else None
            found[phase].append((site.node, place_of(library, entry.site), forward))
    frees = {entry.site for entry in library.journal_read() if entry.kind in (journal.FREE_REQUESTED, 2)}
    return {"forward": found["forward"], "backward": found["backward"], "frees": sorted(frees)}


def mark_and_label(path: str) -> dict[str, Any]:
    library = _native.load()
    library.journal_mark("before the start")
    begin("native")
    library.journal_mark("a step")
    tensor = torch.empty(MIB, device="cuda")
    library.journal_label(tensor.data_ptr(), "parameter")
    address = tensor.data_ptr()
    del tensor
    library.journal_mark("a step")
    library.journal_mark("with \0 and \u00e9")
    entries = [entry for entry in library.journal_read() if entry.kind not in (3, 4)]
    library.journal_write(path)
    written = Path(path).read_bytes()
    read = [journal.JournalEntry(*fields) for fields in journal.JOURNAL_ENTRY.iter_unpack(written)]
    try:
        library.journal_write(f"{path}/none")
        error = ""
    except _native.FrugalAllocError as failed:
        error = str(failed)
    return {
        "kinds": [entry.kind for entry in entries],
        "texts": library.journal_texts(),
        "numbers": [entry.site for entry in entries if entry.kind >= journal.MARK],
        "labelled": [entry.address - address for entry in entries if entry.kind == journal.LABEL],
        "gpus": [entry.gpu for entry in entries if entry.kind >= journal.MARK],
        "same": read == list(library.journal_read()),
        "rest": list(library.journal_read(2)) == read[2:],
        "started_again": library.journal_start(),
        "error": error,
    }


def use_threads(allocator: str) -> dict[str, Any]:
    library = begin(allocator)
    torch.cuda.init()

    def allocate(number: int) -> None:
        for turn in range(50):
            library.journal_mark(f"{number} {turn}")
            torch.empty(100 + number, dtype=torch.uint8, device="cuda")

    threads = [threading.Thread(target=allocate, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries, texts = list(library.journal_read()), library.journal_texts()
    marks = [texts[entry.site].split() for entry in entries if entry.kind == journal.MARK]
    sizes = collections.Counter(entry.bytes for entry in entries if entry.kind == journal.ALLOCATION)
    return {
        "marks_in_order": all(
            [int(turn) for number, turn in marks if number == str(one)] == list(range(50)) for one in range(4)
        ),
        "allocations": [sizes[100 + number] for number in range(4)],
        "now": peak_of(entries)[1],
    }


def in_child(library: Any) -> str:
    """What a child by fork has of the journal."""
    library.journal_mark("unheard")
    before = len(list(library.journal_read()))
    started = library.journal_start()
    library.journal_mark("heard")
    return f"{before} {started} {len(list(library.journal_read()))} {library.journal_texts()}"


def fork() -> dict[str, Any]:
    library = begin("native")
    library.journal_mark("of the parent")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, in_child(library).encode())
        os._exit(0)
    os.waitpid(child, 0)
    library.journal_mark("after the fork")
    torch.empty(MIB, device="cuda")
    return {
        "child": os.read(reading, 1000).decode(),
        "texts": library.journal_texts(),
        "allocations": sum(entry.kind == journal.ALLOCATION for entry in library.journal_read()),
    }
