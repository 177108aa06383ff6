"""Two processes that share CUDA tensors: what test_processes.py runs. Each may or may not have frugal_alloc enabled.

Both go without pidfd_getfd, which ordinary containers refuse, and with few file descriptors.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from typing import Any

import torch
import torch.multiprocessing as multiprocessing

MIB = 1 << 20
OPEN_FILES = 256
PIDFD_OPEN, PIDFD_GETFD = 434, 438  # the same on every architecture


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


def live_as_in_a_container() -> None:
    """From now on pidfd_getfd fails with EPERM and few files can be open, here and in all children."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    libc = ctypes.CDLL(None, use_errno=True)
    filters = (_Instruction * 4)(
        _Instruction(0x20, 0, 0, 0),  # load the number of the system call
        _Instruction(0x15, 0, 1, PIDFD_GETFD),  # is it this one?
        _Instruction(0x06, 0, 0, 0x0005_0000 | errno.EPERM),  # fail
        _Instruction(0x06, 0, 0, 0x7FFF_0000),  # allow
    )
    program = _Program(len(filters), filters)
    no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    for arguments in ((no_new_privileges, 1, 0, 0, 0), (set_seccomp, mode_filter, ctypes.byref(program))):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def pidfd_getfd_error() -> int:
    """The error number with which this process fails to fetch a file descriptor, of itself."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = libc.syscall(PIDFD_OPEN, os.getpid(), 0)
    fetched = libc.syscall(PIDFD_GETFD, process, 0, 0)
    return 0 if fetched >= 0 else ctypes.get_errno()


def consume(requests: Any, answers: Any, ours: bool) -> None:
    """Does as it is told until it is told to stop, and answers every request when it is done."""
    if ours:
        import frugal_alloc

        frugal_alloc.enable()
    held: dict[str, list[torch.Tensor]] = {}
    for action, name, *payload in iter(requests.get, None):
        if action == "enable":
            import frugal_alloc

            frugal_alloc.enable()
        elif action == "hold":
            held[name] = list(payload[0])
        elif action == "fill":
            _fill(held[name], payload[0])
        elif action == "drop":
            del held[name]
        elif action == "make":
            held[name] = [torch.arange(size, dtype=torch.int32).cuda() for size in payload[0]]
            answers.put(held[name])
        elif action == "wait":
            payload[0].synchronize()
        del payload
        torch.cuda.synchronize()
        answers.put([int(tensor.cpu().sum()) for tensor in held.get(name, [])])


def _fill(tensors: list[torch.Tensor], value: int) -> None:
    """Returns when the values are there, for the other process, too."""
    for tensor in tensors:
        tensor.fill_(value)
    torch.cuda.synchronize()


class Consumer:
    """The consuming process, from the producer's side."""

    def __init__(self, ours: bool) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.requests, self.answers = spawn.Queue(), spawn.Queue()
        self.process = spawn.Process(target=consume, args=(self.requests, self.answers, ours), daemon=True)
        self.process.start()

    def ask(self, action: str, name: str = "", *payload: Any) -> list[int]:
        """The sums of what the consumer holds under the name when it has done the action."""
        self.requests.put((action, name, *payload))
        return self.answers.get()

    def make(self, name: str, sizes: list[int]) -> list[torch.Tensor]:
        self.requests.put(("make", name, sizes))
        made = self.answers.get()
        self.answers.get()
        return made

    def stop(self) -> int | None:
        self.requests.put(None)
        self.process.join()
        return self.process.exitcode


def _allocated() -> int:
    torch.cuda.synchronize()
    torch.cuda.ipc_collect()
    return torch.cuda.memory_allocated()


def produce(ours: bool, consumer_ours: bool) -> dict[str, Any]:
    """Shares tensors both ways, and reports what could be seen of it."""
    live_as_in_a_container()
    facts: dict[str, Any] = {
        "pidfd_getfd_error": pidfd_getfd_error(),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }
    if ours:
        import frugal_alloc

        frugal_alloc.enable()
    consumer = Consumer(consumer_ours)
    before = _allocated()
    _share_one(consumer, facts)
    _share_many(consumer, facts)
    _drop_first(consumer, facts)
    _receive(consumer, facts)
    facts["left"] = _allocated() - before
    _share_large(consumer, facts)
    if not consumer_ours:
        facts["around_enabling"] = _enable_between(consumer)
    facts["exit_status"] = consumer.stop()
    return facts


def _share_one(consumer: Consumer, facts: dict[str, Any]) -> None:
    tensor = torch.arange(1000, dtype=torch.int32).cuda()
    addresses = [tensor.data_ptr()]
    facts["sum"] = consumer.ask("hold", "one", [tensor])
    addresses.append(tensor.data_ptr())
    consumer.ask("fill", "one", 3)
    facts["written_by_consumer"] = int(tensor.cpu().sum())
    _fill([tensor], 5)
    facts["written_by_producer"] = consumer.ask("look", "one")
    facts["view"] = consumer.ask("hold", "view", [tensor[:10]])
    addresses.append(tensor.data_ptr())
    facts["moves"] = len(set(addresses)) - 1
    event = torch.cuda.Event(interprocess=True)
    event.record()
    consumer.ask("wait", "", event)
    for name in ("one", "view"):
        consumer.ask("drop", name)


def _share_many(consumer: Consumer, facts: dict[str, Any]) -> None:
    sizes = [(i * 7919) % 20_000 + 1 for i in range(2 * OPEN_FILES)]
    tensors = [torch.ones(size, dtype=torch.int32).cuda() for size in sizes]
    facts["many"] = consumer.ask("hold", "many", tensors) == sizes
    consumer.ask("drop", "many")


def _drop_first(consumer: Consumer, facts: dict[str, Any]) -> None:
    before = _allocated()
    tensor = torch.ones(2 * MIB, dtype=torch.int32).cuda()
    consumer.ask("hold", "dropped", [tensor])
    del tensor
    facts["kept_for_consumer"] = _allocated() - before
    facts["still_there"] = consumer.ask("look", "dropped")
    consumer.ask("drop", "dropped")
    facts["freed_after_consumer"] = _allocated() - before


def _receive(consumer: Consumer, facts: dict[str, Any]) -> None:
    received = consumer.make("made", [10, 1000, 100_000])
    facts["received"] = [int(tensor.cpu().sum()) for tensor in received]
    try:
        received[0].untyped_storage()._share_cuda_()
    except RuntimeError as error:
        facts["sent_on"] = str(error).splitlines()[0]
    stream = torch.cuda.Stream()
    received[0].record_stream(stream)
    _fill([received[1]], 2)
    facts["written_by_receiver"] = consumer.ask("look", "made")[1]
    del received
    consumer.ask("drop", "made")


def _share_large(consumer: Consumer, facts: dict[str, Any]) -> None:
    """Memory that only waits for somebody to notice that the consumer let go of it is memory."""
    large = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    consumer.ask("hold", "large", [large[:1000]])
    del large
    consumer.ask("drop", "large")
    torch.cuda.empty_cache()
    room = 256 * MIB
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + room) / torch.cuda.mem_get_info()[1])
    size = room + 32 * MIB
    facts["reclaimed"] = torch.empty(size, dtype=torch.uint8, device="cuda").numel() == size
    torch.cuda.set_per_process_memory_fraction(1.0)


def _enable_between(consumer: Consumer) -> list[int]:
    """The sums of two tensors of one segment, which the consumer opens before it enables frugal_alloc and after."""
    ones = torch.ones(2000, dtype=torch.int32).cuda()
    first, second = torch.empty_like(ones), torch.empty_like(ones)
    for tensor in (first, second):
        tensor.copy_(ones)
    sums = consumer.ask("hold", "before", [first])
    consumer.ask("enable")
    sums += consumer.ask("hold", "after", [second]) + consumer.ask("look", "before")
    for name in ("before", "after"):
        consumer.ask("drop", name)
    return sums


def give_and_go(answers: Any, received: Any) -> None:
    """A producer that ends as soon as it knows that its tensor has arrived."""
    import frugal_alloc

    frugal_alloc.enable()
    tensor = torch.arange(1000, dtype=torch.int32).cuda()
    answers.put(tensor)
    received.wait()


def write_own_row(rank: int, model: torch.nn.Module, ours: torch.Tensor) -> None:
    """What each of several children does to a model that its parent shares with all."""
    import frugal_alloc

    frugal_alloc.enable()
    model.weight.detach()[rank].fill_(rank + 1)
    ours[rank] = frugal_alloc._native.load().owns(torch.empty(1000, device="cuda").data_ptr())
    torch.cuda.synchronize()
