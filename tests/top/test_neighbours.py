"""Programs that share a simulated GPU of 4 GiB: one that runs out of memory has what others do not use.

How each end meets one that lies, hangs, dies or floods is tests/bindings/neighbours_test.cc's, with a clock of its own.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from published import MIB, Program, is_published, name_of, running

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


SILENT = "report_dir:off,publish:off"


@pytest.mark.parametrize(("first", "second"), [(SILENT, "report_dir:off"), ("report_dir:off", SILENT)])
def test_where_either_does_not_publish_nothing_is_given(first: str, second: str, beside: Beside) -> None:
    with beside(HOLDS, FRUGAL_ALLOC_CONF=first) as holds:
        held = holds.told()["held"]
        with beside(WANTS, FRUGAL_ALLOC_CONF=second) as wants:
            told = wants.told()
            assert not told["took"]
            assert "other processes of yours" not in told["error"]
        holds.order()
        assert holds.told()["held"] == held


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


def test_two_that_run_out_at_once_and_ask_each_other_both_go_on(beside: Beside) -> None:
    # Each holds 1.4 GiB in a tensor and 0.3 free; both then want 1 GiB.
    code = f"live = tensor(1434 * MIB)\ntensor(300 * MIB)\ntell()\nawait_order()\n{WANTS}"
    with beside(code) as one, beside(code) as other:
        for program in (one, other):
            program.told()
        for program in (one, other):
            program.order()
        ends = [program.told()["took"] for program in (one, other)]
        assert sum(ends) <= 1


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


@contextlib.contextmanager
def bad_neighbour(namesake: int, behave: Callable[[socket.socket], object]) -> Iterator[list[bytes]]:
    """Listens as a process of that number would; `behave` is given each connection. Yields what it was asked."""
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind("\0" + name_of(namesake).replace("frugal_alloc/", "frugal_alloc/give/"))
        door.listen(64)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = door.accept()
                    with connection, contextlib.suppress(OSError):
                        asked.append(connection.recv(1000))
                        behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield asked
        finally:
            door.shutdown(socket.SHUT_RDWR)
            thread.join()


def sends_without_end(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"x" * 65536)


BAD: tuple[Callable[[socket.socket], object], ...] = (
    lambda connection: connection.sendall(b"999999999999\n"),
    lambda connection: connection.recv(1),  # until the other has given up
    sends_without_end,
)
# No process has such a number (PID_MAX_LIMIT).
NOBODY = 1 << 23


def test_bad_neighbours_keep_no_grant_of_others_away(beside: Beside) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            # Each has 0.6 GiB free, and the GPU 1.1 GiB.
            code = "live = tensor(800 * MIB)\ntensor(600 * MIB)\ntell()\nawait_order()\n"
            stack.enter_context(beside(code)).told()
        asked = [stack.enter_context(bad_neighbour(namesake, behave)) for namesake, behave in enumerate(BAD, NOBODY)]
        wants = stack.enter_context(beside(WANTS.replace("1024", "1800")))
        assert wants.told()["took"]
    assert all(line.startswith(b"1887436800 GPU-") and line.endswith(b"\n") for one in asked for line in one)
    assert all(asked)


def test_flood_of_requests_leaves_live_memory_and_the_program_alone(beside: Beside, tmp_path: Path) -> None:
    code = HOLDS.replace("await_order()", "await_order()\nfor _ in range(50): tensor(1024 * MIB)", 1)
    request = f"99999999999999 GPU-{uuid.UUID(bytes=b'frugal-sim-gpu-0')} of {tmp_path / 'node'}\n".encode()
    given: list[int] = []
    with beside(code) as holds:
        pid = holds.told()["pid"]
        address = "\0" + name_of(pid).replace("frugal_alloc/", "frugal_alloc/give/")
        ended = threading.Event()

        def flood() -> None:
            while not ended.is_set():
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                    connection.connect(address)
                    connection.sendall(request)
                    given.append(int(connection.recv(100)))

        threads = [threading.Thread(target=flood) for _ in range(3)]
        for thread in threads:
            thread.start()
        holds.order()
        after = holds.told()
        ended.set()
        for thread in threads:
            thread.join()
        assert after["whole"] and after["held"] >= 2048
        assert sum(given) >= 1024 * MIB
        assert is_published(pid)
