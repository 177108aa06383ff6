"""Two processes, the ranks of a custom all-reduce: what test_switches.py runs."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parent / "libraries" / "site-packages"))

VLLM = "vllm.distributed.device_communicators.custom_all_reduce"
COUNT = 1000
#: What a program may have said of its memory before it makes it; "expandable" ones, in the environment.
STATES = (
    "PyTorch's",
    "PyTorch's expandable",
    "ours",
    "ours, expandable",
    "ours, then False",
    "ours, in cuda_malloc()",
)
MOMENTS = ("eager", "captured", "older than the capture", "a tensor itself")


def numbers(value: int) -> torch.Tensor:
    return torch.full((COUNT,), float(value), device="cuda")


class Rank:
    """One process, and its end of the pipe to the other. Its numbers are 10 times those of rank 0, or 20 times."""

    def __init__(self, rank: int, pipe: Any) -> None:
        self.scale, self.others_scale = (10, 20) if rank == 0 else (20, 10)
        self._pipe = pipe

    def exchange(self, mine: Any) -> Any:
        self._pipe.send(mine)
        return self._pipe.recv()

    def eager(self, communicator: Any) -> bool:
        total = communicator.custom_all_reduce(numbers(self.scale))
        return bool((total == self.scale + self.others_scale).all())

    def itself(self, communicator: Any) -> bool:
        """Whether the other rank's tensor is seen, without an all-reduce."""
        tensor = numbers(self.scale)
        torch.cuda.synchronize()
        communicator.unregistered.append(tensor.data_ptr())
        communicator.register_graph_buffers()
        others = communicator.read_other(-1, tensor)
        self.exchange(None)
        return bool((others == self.others_scale).all())

    def captured(self, communicator: Any, is_older: bool) -> bool:
        """Whether the other rank's input is seen as it is at each replay."""
        static = numbers(self.scale)
        graph = torch.cuda.CUDAGraph()
        with communicator.capture(), torch.cuda.graph(graph):
            communicator.custom_all_reduce(static if is_older else static.clone())
        seen = []
        for factor in (1, 3):
            static.fill_(self.scale * factor)
            graph.replay()
            torch.cuda.synchronize()
            self.exchange(None)
            others = communicator.read_other(-1, static)
            seen.append(bool((others == self.others_scale * factor).all()))
            self.exchange(None)
        return all(seen)

    def run(self, state: str, module: str, moment: str) -> dict[str, Any]:
        context = _prepare(state)
        name = next(name for name in dir(importlib.import_module(module)) if name.startswith("CustomAll"))
        with context, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            communicator = getattr(sys.modules[module], name)(self.exchange)
            same = {
                "eager": lambda: self.eager(communicator),
                "captured": lambda: self.captured(communicator, is_older=False),
                "older than the capture": lambda: self.captured(communicator, is_older=True),
                "a tensor itself": lambda: self.itself(communicator),
            }[moment]()
        return {"same": same, "warnings": [str(w.message) for w in caught if w.category is RuntimeWarning]}


def _prepare(state: str) -> contextlib.AbstractContextManager[Any]:
    if not state.startswith("ours"):
        return contextlib.nullcontext()
    import frugal_alloc

    frugal_alloc.enable()
    if state == "ours, then False":
        torch.cuda.memory._set_allocator_settings("expandable_segments:False")
    return frugal_alloc.cuda_malloc() if state == "ours, in cuda_malloc()" else contextlib.nullcontext()


def _run(rank: int, pipe: Any, answers: Any, *what: str) -> None:
    answers.put(Rank(rank, pipe).run(*what))


def run_pair(state: str, module: str = VLLM, moment: str = MOMENTS[0]) -> dict[str, Any]:
    """What both ranks saw, and how the processes ended: 1 as CUDACHECK ends them."""
    fork = multiprocessing.get_context("fork")
    pipes, answers = fork.Pipe(), fork.SimpleQueue()
    ranks = [fork.Process(target=_run, args=(i, pipes[i], answers, state, module, moment)) for i in range(2)]
    for process in ranks:
        process.start()
    for pipe in pipes:
        pipe.close()
    for process in ranks:
        process.join()
    exits = [process.exitcode for process in ranks]
    return {"exits": exits, "seen": [answers.get() for status in exits if status == 0]}
