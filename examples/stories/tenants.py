"""A training and a server on one GPU. The training needs little while it evaluates, the server while nobody asks.

    frugal-alloc simulate --memory 8GiB --node tenants -- python examples/stories/tenants.py --allocator native

They are two processes that take turns. In the first half of a round the training trains and the server is quiet; in
the second half the training evaluates and the server is busy.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import story
import torch
from torch import nn

WIDTH, TOKENS, STEPS = 1024, 512, 3
# Free memory in pages that tensors share does not go back.
SHARED = 32 << 20


def new_model(layers: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, nhead=16, dim_feedforward=4 * WIDTH, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda()


def new_training() -> dict[str, Callable[[], None]]:
    model = new_model(layers=6)
    optimizer = torch.optim.AdamW(model.parameters())

    def train() -> None:
        loss = model(torch.rand(20, TOKENS, WIDTH, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def evaluate() -> None:
        model.eval()
        with torch.no_grad():
            model(torch.rand(4, TOKENS, WIDTH, device="cuda"))
        model.train()

    return {"start": lambda: None, "train": train, "evaluate": evaluate}


def new_server() -> dict[str, Callable[[], None]]:
    model = new_model(layers=12).eval()

    def answer(requests: int) -> None:
        with torch.no_grad():
            model(torch.rand(requests, TOKENS, WIDTH, device="cuda"))

    return {"start": lambda: None, "quiet": lambda: answer(1), "busy": lambda: answer(200)}


def wait_for_idle_release() -> None:
    """Until frugal_alloc's thread has given back what nothing used for a while. It is on only here: a step that takes
    longer than usual would lose memory, too, and each run would hold something else."""
    import frugal_alloc

    frugal_alloc.enable(idle_release="50ms")
    for _ in range(1000):
        if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() <= SHARED:
            frugal_alloc.enable(idle_release="off")
            return
        time.sleep(0.02)
    raise TimeoutError("idle_release gave nothing back in 20 seconds")


def tenant(name: str, options: argparse.Namespace, turns: Connection) -> None:
    """Does what it is told, and answers with the error and its memory: the most in use, in use then, held."""
    story.use(options.allocator)
    if options.limit and name == "training":
        import frugal_alloc

        frugal_alloc.enable(memory_limit=options.limit << 20)
    actions = {"training": new_training, "server": new_server}[name]()
    actions |= {"give back": torch.cuda.empty_cache, "idle": wait_for_idle_release}
    while action := turns.recv():
        error = None
        torch.cuda.reset_peak_memory_stats()
        try:
            actions[action]()
        except torch.OutOfMemoryError as refused:
            error = str(refused)
        most, now = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
        turns.send((error, most, now, torch.cuda.memory_reserved()))


def phases(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Who does what, turn by turn."""
    gives = ["give back"] if options.give_back else ["idle"] if options.idle_release else []
    half = [("training", one) for one in ["train"] * STEPS + gives], [("server", one) for one in ["quiet"] * STEPS]
    other = [("training", "evaluate")] * STEPS, [("server", one) for one in ["busy"] * STEPS + gives]
    rounds = [turn for _ in range(options.rounds) for part in (*half, *other) for turn in part]
    return [("training", "start"), ("server", "start"), *rounds]


def arguments() -> argparse.Namespace:
    parser = story.parser(__doc__)
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--give-back", action="store_true", help="torch.cuda.empty_cache() where a phase ends")
    ends.add_argument(
        "--idle-release", action="store_true", help="frugal_alloc's setting idle_release instead: waits for its thread"
    )
    parser.add_argument(
        "--limit", type=story.count, metavar="MIB", help="frugal_alloc's setting memory_limit for the training"
    )
    parser.add_argument("--rounds", type=story.count, default=2, help="rounds of both (default 2)")
    options = parser.parse_args()
    if (options.idle_release or options.limit) and options.allocator != "frugal":
        parser.error("--idle-release and --limit are frugal_alloc's: add --allocator frugal")
    return options


def main() -> int:
    options = arguments()
    # The parent uses no CUDA, so that its children may.
    forked = multiprocessing.get_context("fork")
    tenants, processes, failed, error = {}, [], None, None
    for name in ("training", "server"):
        tenants[name], theirs = forked.Pipe()
        processes.append(forked.Process(target=tenant, args=(name, options, theirs), daemon=True))
        processes[-1].start()
    turns = []
    for name, action in phases(options):
        tenants[name].send(action)
        error, *memory = tenants[name].recv()
        turns.append((name, action, *memory))
        if error:
            print(f"{name}, {action}: {error}", file=sys.stderr)
            failed = name
            break
    for one, process in zip(tenants.values(), processes, strict=True):
        one.send(None)
        process.join()
    return story.end(options.json, error, failed=failed, turns=turns)


if __name__ == "__main__":
    sys.exit(main())
