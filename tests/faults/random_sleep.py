"""Rounds of sleep at random on two simulated GPUs, with real values, while products are computed, tasks allocate, and
driver calls fail.

    frugal-alloc simulate --gpus 2 --memory 1GiB --values cpu -- python random_sleep.py ROUNDS SEED

Of each call all GPUs sleep or wake, or none does; what was not dropped holds what it held; a tensor has the tag of the
task that made it; and each workspace that a library is given has memory below it, which the checker of order sees. What
is otherwise is printed as JSON behind "RESULTS".
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import warnings
from collections import Counter
from pathlib import Path

import frugal_alloc
import torch
from failing_gpu import ERRORS, KINDS, SimulatedGpu

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "bindings")]
from sleep_helpers import sleeps, workspaces  # noqa: E402

TAGS = ("weights", "optimizer", "caches")
SIZES = (3_000, 90_000, 600_000, 2_500_000)  # numbers
GPUS = ("cuda:0", "cuda:1")


class Held:
    """A tensor whose numbers are all the same, and the tag that it should have."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.value = random.randrange(1 << 20)
        self.tensor = torch.full((random.choice(SIZES),), self.value, dtype=torch.int32, device=random.choice(GPUS))

    def is_whole(self) -> bool:
        return bool((self.tensor == self.value).all())

    def write(self) -> None:
        self.tensor.fill_(self.value)


class Program:
    def __init__(self) -> None:
        self.gpu = SimulatedGpu()
        self.wrong: Counter[str] = Counter()
        self.faults = self.failures = 0
        self.held = [Held("") for _ in range(4)]
        self.asleep: set[str] = set()
        self.dropped: set[str] = set()
        self.models = [torch.nn.Linear(128, 128, device=gpu) for gpu in GPUS]

    async def task(self, tag: str) -> None:
        with frugal_alloc.tag(tag):
            for _ in range(random.randrange(1, 4)):
                await asyncio.sleep(0)
                self.held.append(Held(tag))
                self.product()

    async def tasks(self) -> None:
        awake = [tag for tag in TAGS if tag not in self.asleep]
        await asyncio.gather(*(self.task(tag) for tag in random.choices(awake, k=3)))

    def product(self) -> None:
        """In whatever workspace the stream has, or gets with the tag of whoever comes first."""
        with torch.no_grad():
            for model in self.models:
                model(torch.ones(2, 128, device=model.weight.device))

    def call(self, what: str, call: object) -> bool:
        """Whether it was done; a driver call may fail in it, or several."""
        before = frugal_alloc.asleep()
        if random.random() < 0.6:
            calls = (random.choice(KINDS) for _ in range(random.randrange(1, 3)))
            plan = ",".join(f"driver.{kind}@{random.randrange(1, 12)}={random.choice(ERRORS)}" for kind in calls)
            self.gpu.fail(plan)
        else:
            plan = ""
        try:
            call()
        except frugal_alloc.FrugalAllocError as error:
            self.faults += self.gpu.end_failing()
            self.failures += 1
            # To undo a wake takes calls of the driver, which may fail in their turn: the error says so.
            is_told = what == "wake" and "all the same" in str(error)
            if frugal_alloc.asleep() != before and not is_told:
                self.wrong[f"{what}, {plan}: a part was done, and the error is: {error}"] += 1
            return False
        self.faults += self.gpu.end_failing()
        return True

    def sleep(self) -> None:
        tags = random.sample(TAGS, random.randrange(1, 4))
        drop = random.sample(tags, random.randrange(len(tags) + 1)) if random.random() < 0.5 else []
        chosen = {"tags": tags} if random.random() < 0.5 else {"keep": [tag for tag in TAGS if tag not in tags]}
        if "keep" in chosen:  # all but these, so also what has no tag
            tags = [*tags, ""]
        options = {"host": random.choice(("pinned", "pageable")), "check": random.choice((None, "poison"))}
        if self.call("sleep", lambda: frugal_alloc.sleep(**chosen, drop=drop, **options)):
            self.asleep |= set(tags)
            self.dropped |= set(drop)
            for each in self.held:
                if sleeps(each.tensor) and each.tag not in self.asleep:
                    self.wrong[f"what has the tag {each.tag!r} sleeps with {tags}"] += 1

    def wake(self, tags: list[str] | None = None) -> None:
        if self.call("wake", lambda: frugal_alloc.wake(tags)):
            self.asleep -= set([*TAGS, ""] if tags is None else tags)

    def check(self) -> None:
        """What is awake is used: products, and values that may not have been lost."""
        if "" not in self.asleep:
            self.product()
        for each in self.held:
            if each.tag in self.asleep:
                continue
            if each.tag not in self.dropped and not each.is_whole():
                self.wrong[f"{each.tag!r} is not what it was"] += 1

    def round(self) -> None:
        if "" not in self.asleep and len(self.asleep) < len(TAGS):
            asyncio.run(self.tasks())
        self.sleep()
        self.check()
        random.shuffle(self.held)
        del self.held[12:]  # some of them asleep
        if random.random() < 0.5:
            self.sleep()
            self.check()
        if random.random() < 0.5:
            self.wake(random.sample(TAGS, 2))
            self.check()
        for _ in range(5):  # whatever fails
            if self.asleep:
                self.wake()
        self.check()
        for each in self.held:
            if each.tag in self.dropped and each.tag not in self.asleep:
                each.write()
        self.dropped &= self.asleep


def main() -> None:
    rounds, seed = int(sys.argv[1]), int(sys.argv[2])
    random.seed(seed)
    warnings.simplefilter("ignore")  # of memory that the driver did not take back
    frugal_alloc.enable()
    for tag in TAGS:
        frugal_alloc.retag([], tag)
    program = Program()
    for _ in range(rounds):
        program.round()
    torch.cuda.synchronize()
    facts = {"faults": program.faults, "failures": program.failures, "workspaces": len(workspaces.given)}
    print("RESULTS" + json.dumps({"wrong": dict(program.wrong), "rounds": rounds} | facts))


if __name__ == "__main__":
    main()
