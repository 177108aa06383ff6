"""A server and a trainer share one GPU by turns, as in reinforcement learning with GRPO.

    FRUGAL_SIM_KEEP=1MiB frugal-alloc simulate --memory 24GiB -- python examples/stories/turns.py --way frugal

That leaves out the contents of large tensors, which the host may not have room for. In a turn the server generates
tokens, and the trainer makes one step of them. Each sleeps while the other works. Then the server gets the new weights.
Figures of the GPU are the simulated one's.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import counts
import segments
import story
import torch
import turns_models
from torch import multiprocessing

WAYS = ("keep", "saver", "vllm", "frugal")


class Awake:
    """Nothing sleeps."""

    @contextlib.contextmanager
    def region(self, tag: str) -> Iterator[None]:
        yield

    def sleep(self, tags: tuple[str, ...], drop: tuple[str, ...]) -> int:
        """Returns the bytes that were copied."""
        return 0

    def wake(self, tags: tuple[str, ...]) -> int:
        return 0

    def host_bytes(self) -> int:
        return 0


class Frugal(Awake):
    def __init__(self) -> None:
        import frugal_alloc

        self._frugal = frugal_alloc
        self._copied: dict[str, int] = {}
        self._host_bytes = 0

    def region(self, tag: str) -> contextlib.AbstractContextManager[object]:
        return self._frugal.tag(tag)

    def sleep(self, tags: tuple[str, ...], drop: tuple[str, ...]) -> int:
        slept = self._frugal.sleep(tags + drop, drop=drop)
        self._copied.update({tag: slept.tags.get(tag, 0) for tag in tags})
        self._host_bytes = slept.host_bytes
        return slept.copied_bytes

    def wake(self, tags: tuple[str, ...]) -> int:
        self._frugal.wake(tags)
        return sum(self._copied.pop(tag, 0) for tag in tags)

    def host_bytes(self) -> int:
        return self._host_bytes


def way_of(name: str) -> Awake | segments.Segments:
    """Before CUDA starts.

    Args:
        name: "keep": PyTorch's allocator, and nothing sleeps; "saver" and "vllm": segments of its pools sleep, as with
            torch_memory_saver and with vLLM; "frugal": tensors of frugal_alloc do.
    """
    story.use("frugal" if name == "frugal" else "native")
    if name == "keep":
        return Awake()
    return Frugal() if name == "frugal" else segments.Segments(gives_back_empty=name == "vllm")


class Actor:
    """The server, the trainer, or both in one process."""

    server: turns_models.Server
    trainer: turns_models.Trainer

    def __init__(self, way: str, sizes: turns_models.Sizes) -> None:
        self._way, self._sizes = way_of(way), sizes
        self._counts = counts.Counts()

    def make_server(self) -> None:
        with self._way.region("weights"):
            model = turns_models.ServedModel(self._sizes)
        with self._way.region("kv_cache"):
            self.server = turns_models.Server(self._sizes, model, turns_models.caches_of(self._sizes))

    def make_trainer(self) -> None:
        with self._way.region("trainer"):
            self.trainer = turns_models.Trainer(self._sizes)

    def generate(self, turn: int) -> list[list[int]]:
        return self.server.generate(turn)

    def train(self, tokens: list[list[int]]) -> float:
        return self.trainer.step(tokens, self._way.region("trainer"))

    def publish(self, through_host: bool) -> list[torch.Tensor]:
        weights = [weight.detach() for weight in self.trainer.model.parameters()]
        return [weight.to(torch.bfloat16).cpu() for weight in weights] if through_host else weights

    def take(self, weights: list[torch.Tensor]) -> None:
        self.server.model.load(weights)

    def sleep(self, *tags: str, drop: tuple[str, ...] = ()) -> dict[str, int]:
        torch.cuda.empty_cache()
        live, dropped = self._blocks(tags), self._blocks(drop)
        with self._counts.of() as counted:
            copied = self._way.sleep(tags, drop)
        return {"live": live, "dropped": dropped, "copied": copied, "host": self._way.host_bytes(), **counted}

    def wake(self, *tags: str) -> dict[str, int]:
        with self._counts.of() as counted:
            copied = self._way.wake(tags)
        return {"copied": copied, **counted}

    def memory(self) -> tuple[int, int]:
        return self._counts.memory()

    def _blocks(self, tags: tuple[str, ...]) -> int:
        """Bytes of the tensors with these tags, in units of 512, as allocators hand them out."""
        of_tags = {
            "weights": lambda: self.server.model.parameters(),
            "kv_cache": lambda: self.server.caches,
            "trainer": lambda: self.trainer.state(),
        }
        return sum(-(-one.untyped_storage().nbytes() // 512) * 512 for tag in tags for one in of_tags[tag]())


class Course:
    """What happened in which order, with the GPU memory in use."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._used: dict[int, int] = {}

    def asked(self, ask: Callable[..., tuple[Any, int, int]], who: str, process: int) -> Callable[..., Any]:
        """`ask`, of which each answer is written down; its process is one of those that use the GPU."""

        def do(action: str, *arguments: Any, **named: Any) -> Any:
            found, most, now = ask(action, *arguments, **named)
            others = sum(used for other, used in self._used.items() if other != process)
            self._used[process] = now
            event = {"who": who, "action": action, "most": most + others, "now": now + others}
            self.events.append(event | (found if isinstance(found, dict) else {}))
            return found

        return do


def play(server: Callable[..., Any], trainer: Callable[..., Any], apart: bool, turns: int) -> dict[str, Any]:
    """Returns the losses, and all tokens."""
    losses, tokens = [], []
    server("make_server")
    server("sleep", "weights", drop=("kv_cache",))
    trainer("make_trainer")
    trainer("sleep", "trainer")
    server("wake", "weights", "kv_cache")
    for turn in range(turns):
        tokens.append(server("generate", turn))
        server("sleep", "weights", drop=("kv_cache",))
        trainer("wake", "trainer")
        losses.append(trainer("train", tokens[-1]))
        server("wake", "weights")
        server("take", trainer("publish", apart))
        trainer("sleep", "trainer")
        server("wake", "kv_cache")
    return {"losses": losses, "tokens": tokens}


class Process:
    """An actor, in a process of its own if the GPU is shared by two."""

    _actor: Actor | None = None

    @classmethod
    def answer(cls, options: argparse.Namespace, action: str, arguments: Any, named: Any) -> tuple[Any, int, int]:
        """What the process's actor answers, and the most memory in use since it was asked last, and now."""
        if cls._actor is None:
            cls._actor = Actor(options.way, turns_models.SIZES[options.sizes])
        return getattr(cls._actor, action)(*arguments, **named), *cls._actor.memory()

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        forked = multiprocessing.get_context("fork")
        self._own = ProcessPoolExecutor(1, forked) if options.processes == 2 else None

    def ask(self, action: str, *arguments: Any, **named: Any) -> tuple[Any, int, int]:
        question = self._options, action, arguments, named
        return self._own.submit(Process.answer, *question).result() if self._own else Process.answer(*question)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--way", choices=WAYS, default="frugal")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    parser.add_argument("--sizes", choices=turns_models.SIZES, default="large")
    parser.add_argument("--turns", type=story.count, default=3, help="turns of both (default 3)")
    parser.add_argument("--json", type=pathlib.Path, help="write what happened to this file")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    course, made, failed = Course(), {}, None
    processes = [Process(options) for _ in range(options.processes)]
    server, trainer = (
        course.asked(processes[0].ask, "server", 1),
        course.asked(processes[-1].ask, "trainer", options.processes),
    )
    try:
        made = play(server, trainer, options.processes == 2, options.turns)
    except torch.OutOfMemoryError as refused:
        failed = str(refused).partition(" GPU 0")[0]
        print(failed, file=sys.stderr)
    # Its segments call Python when they go, which they cannot once it ends.
    Process._actor = None
    largest = max(event["most"] for event in course.events) / (1 << 30)
    print(f"losses {made.get('losses')}; at most {largest:.2f} GiB in use")
    return story.end(options.json, failed, events=course.events, **made)


if __name__ == "__main__":
    sys.exit(main())
