"""Programs that share a simulated GPU of 4 GiB: one that runs out of memory has what others do not use.

How each end meets one that lies, hangs, dies or floods is tests/bindings/neighbours_test.cc's, with a clock of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from published import MIB, Program, running

# Holds 2 GiB in a tensor, and 1 GiB that is free.
HOLDS = """
kept = torch.arange(2048, dtype=torch.int32, device="cuda")
live = tensor(2048 * MIB)
tensor(1024 * MIB)
tell(held=torch.cuda.memory_reserved() // MIB)
await_order()
tell(held=torch.cuda.memory_reserved() // MIB, whole=bool((kept.cpu() == torch.arange(2048)).all()))
await_order()
"""
# Wants 1 GiB, of which the GPU has less free.
WANTS = """
def attempt(size):
    try:
        return tensor(size * MIB), ""
    except torch.OutOfMemoryError as error:
        return None, str(error)
taken, error = attempt(1024)
tell(took=taken is not None, error=error)
await_order()
"""


Beside = Callable[..., contextlib.AbstractContextManager[Program]]


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    """Starts programs on one GPU."""
    numbers = iter(range(100))

    def start(code: str, **variables: str) -> contextlib.AbstractContextManager[Program]:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        shared = {"FRUGAL_SIM_NODE": str(tmp_path / "node"), "FRUGAL_SIM_CONTEXT": str(64 * MIB)}
        return running(code, folder, **{**shared, **variables})

    return start


IN_A_POOL = WANTS.replace(
    "taken, error =", "ordinary = tensor(1)\nwith torch.cuda.use_mem_pool(torch.cuda.MemPool()): taken, error ="
)
IN_A_GRAPH = WANTS.replace(
    "taken, error = attempt(1024)",
    """
ordinary = tensor(1)
graph = torch.cuda.CUDAGraph()
with torch.cuda.stream(torch.cuda.Stream()):
    graph.capture_begin()
    taken, error = attempt(1024)
    graph.capture_end()
""",
)


@pytest.mark.parametrize("code", [WANTS, IN_A_POOL, IN_A_GRAPH], ids=["ours", "PyTorch's own", "in a capture"])
def test_idle_memory_goes_to_one_that_runs_out_and_live_memory_stays(code: str, beside: Beside) -> None:
    with beside(HOLDS) as holds:
        assert holds.told()["held"] >= 3072
        with beside(code) as wants:
            assert wants.told()["took"]
        holds.order()
        after = holds.told()
        assert after["whole"]
        assert 2048 <= after["held"] <= 2060


@pytest.mark.parametrize(
    ("held", "idle", "wanted", "said"),
    [
        (3000, 0, 1024, "Python's garbage, other processes of yours: in vain"),
        (2560, 512, 2048, "other processes of yours (512.00 MiB): not enough"),
    ],
    ids=["nothing", "too little"],
)
def test_error_says_what_others_gave(held: int, idle: int, wanted: int, said: str, beside: Beside) -> None:
    code = f"live = tensor({held} * MIB)\ntensor({idle} * MIB)\ntell()\nawait_order()\n"
    with beside(code) as holds:
        holds.told()
        with beside(WANTS.replace("1024", str(wanted))) as wants:
            told = wants.told()
    assert not told["took"]
    assert said in " ".join(told["error"].split())


def test_processes_on_other_gpus_are_not_asked(beside: Beside, tmp_path: Path) -> None:
    with beside(HOLDS, FRUGAL_SIM_NODE=str(tmp_path / "another")) as elsewhere:
        held = elsewhere.told()["held"]
        with beside("live = tensor(1500 * MIB)\ntell()\nawait_order()\n") as holds:
            holds.told()
            with beside(WANTS.replace("1024", "3000")) as wants:
                assert "other processes of yours: in vain" in " ".join(wants.told()["error"].split())
        elsewhere.order()
        assert elsewhere.told()["held"] == held


def test_process_that_captures_a_graph_gives_nothing_and_its_capture_goes_on(beside: Beside) -> None:
    code = """
tensor(3000 * MIB)
graph = torch.cuda.CUDAGraph()
with torch.cuda.stream(torch.cuda.Stream()):
    graph.capture_begin()
    inside = tensor(MIB)
    tell()
    await_order()
    graph.capture_end()
graph.replay()
tell(held=torch.cuda.memory_reserved() // MIB)
"""
    with beside(code) as holds:
        holds.told()
        with beside(WANTS) as wants:
            assert not wants.told()["took"]
        holds.order()
        assert holds.told()["held"] >= 3000


def test_child_by_fork_of_a_process_without_cuda_is_a_neighbour_of_its_own(beside: Beside) -> None:
    # Its input is the parent's, which waits for it.
    code = f"child = os.fork()\nif child: os.waitpid(child, 0); os._exit(0)\n{HOLDS}os._exit(0)\n"
    with beside(code) as holds:
        holds.told()
        with beside(WANTS) as wants:
            assert wants.told()["took"]
        holds.order()
        assert holds.told()["whole"]
        holds.order()
