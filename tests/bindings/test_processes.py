"""Other processes: those that tensors are shared with, children by fork and by spawn, and the end of a program."""

import errno
from pathlib import Path

import pytest
from binding_helpers import run_python

MIB = 1 << 20
HERE = Path(__file__).parent

# Producer and consumer.
PAIRS = [("ours", "ours"), ("ours", "plain"), ("plain", "ours")]


def run_pair_program(code: str) -> dict:
    return run_python(f"import sys; sys.path.insert(0, {str(HERE)!r}); import sharing_pair\n{code}")


@pytest.fixture(scope="module", params=PAIRS, ids=[" to ".join(pair) for pair in PAIRS])
def pair(request):
    """What two processes saw that shared tensors both ways, and who of them had frugal_alloc."""
    producer, consumer = request.param
    result = run_pair_program(f"report(**sharing_pair.produce({producer == 'ours'}, {consumer == 'ours'}))")
    assert result["status"] == 0, result["stderr"]
    return result | {"producer": producer, "consumer": consumer}


# What holds in every pair.
FACTS = {
    "they live as in a container": {"pidfd_getfd_error": errno.EPERM, "open_files": 256},
    "shared values arrive": {"sum": [499_500], "view": [5 * 10]},
    "both see what either writes": {"written_by_consumer": 3 * 1000, "written_by_producer": [5 * 1000]},
    "more tensors than file descriptors are shared": {"many": True},
    "memory lives as long as the consumer holds it": {
        "kept_for_consumer": 8 * MIB,
        "still_there": [2 * MIB],
        "freed_after_consumer": 0,
    },
    "memory that the consumer let go serves the next request": {"reclaimed": True},
    "tensors come back the other way": {
        "received": [sum(range(size)) for size in (10, 1000, 100_000)],
        "written_by_receiver": 2 * 1000,
    },
    "nothing stays allocated": {"left": 0, "exit_status": 0},
}


@pytest.mark.parametrize("claim", FACTS)
def test_processes_share_tensors(pair, claim):
    assert {fact: pair[fact] for fact in FACTS[claim]} == FACTS[claim]


def test_shared_tensor_moves_at_most_once(pair):
    assert pair["moves"] == (1 if pair["producer"] == "ours" else 0)


def test_received_tensor_cannot_be_sent_on_as_ever(pair):
    assert pair["sent_on"].startswith("Attempted to send CUDA tensor received from another process")


def test_memory_opened_before_the_consumer_enables_us_stays_open(pair):
    if pair["consumer"] == "ours":
        pytest.skip("it has enabled us from the beginning")
    assert pair["around_enabling"] == [2000] * 3


def test_consumer_outlives_its_producer():
    result = run_pair_program(
        """
import torch, torch.multiprocessing, frugal_alloc
frugal_alloc.enable()
spawn = torch.multiprocessing.get_context("spawn")
answers, received = spawn.Queue(), spawn.Event()
producer = spawn.Process(target=sharing_pair.give_and_go, args=(answers, received))
producer.start()
tensor = answers.get()
report(sum=int(tensor.cpu().sum()))
received.set()
producer.join()
del tensor
report(producer=producer.exitcode, ours=frugal_alloc._native.load().owns(torch.empty(9, device="cuda").data_ptr()))
"""
    )
    assert (result["sum"], result["producer"], result["ours"], result["status"]) == (499_500, 0, True, 0)


def test_model_is_shared_with_children_by_spawn():
    result = run_pair_program(
        """
import torch, frugal_alloc
frugal_alloc.enable()
model = torch.nn.Linear(1000, 2).cuda().share_memory()
ours = torch.zeros(2, dtype=torch.bool).share_memory_()
torch.multiprocessing.spawn(sharing_pair.write_own_row, args=(model, ours), nprocs=2)
report(rows=[set(row.tolist()) == {rank + 1} for rank, row in enumerate(model.weight.cpu())], ours=ours.tolist())
"""
    )
    assert result["rows"] == [True, True], result["stderr"]
    assert result["ours"] == [True, True]


def test_program_ends_well_with_live_tensors():
    result = run_python(
        """
import torch, frugal_alloc
frugal_alloc.enable()
held = [torch.empty(size, device="cuda") for size in (10, 1_000_000)]
stream = torch.cuda.Stream()
held[1].record_stream(stream)
cycle = [held]
cycle.append(cycle)
report(done=True)
""",
        is_forked=False,
    )
    assert (result["done"], result["status"], result["stderr"]) == (True, 0, "")


def test_children_by_fork_end_well_while_other_threads_allocate():
    result = run_python(
        """
import os, signal, threading, torch, frugal_alloc
frugal_alloc.enable()
held = [torch.empty(100_000, device="cuda") for _ in range(10)]
stop = threading.Event()

def work(seed):
    while not stop.is_set():
        torch.empty(seed * 10_000, device="cuda")

threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 300)]
for thread in threads:
    thread.start()
statuses = set()
for _ in range(30):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        held.clear()
        os._exit(0)
    statuses.add(os.waitpid(child, 0)[1])
stop.set()
for thread in threads:
    thread.join()
report(statuses=list(statuses), held=len(held))
"""
    )
    assert (result["statuses"], result["held"], result["status"]) == ([0], 10, 0), result["stderr"]
