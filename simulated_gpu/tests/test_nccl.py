"""Two ranks on the simulated GPU with the backend nccl, as programs and torchrun start them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fork_server
import pytest
import simulated_gpu
from checkout import package_first
from simulated_gpu import driver_options

MIB = 1 << 20
PROGRAMS = Path(__file__).with_name("nccl_programs.py")
QUIET = {"OMP_NUM_THREADS": "1", "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING": "false"}


def torchrun(name: str, folder: Path) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "frugal_alloc", "simulate", "--memory", "8GiB", "--gpus", "2", "--"]
    line += [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(PROGRAMS)]
    environment = package_first(dict(os.environ)) | QUIET
    return subprocess.run([*line, name, str(folder)], env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module", autouse=True)
def node() -> Iterator[Path]:
    path = driver_options.node_file(f"test-nccl-{os.getpid()}")
    yield path
    path.unlink(missing_ok=True)


def ranks(
    names: str, folder: Path, node: Path, *, values: str = "none", backend: str = "nccl", **settings: str
) -> list[dict]:
    """What each of two ranks saw, by program; they have said nothing."""
    base = simulated_gpu.environment(8 << 30, gpus=2, values=values) | {"FRUGAL_SIM_NODE": str(node)}
    environment = package_first(base | QUIET | settings)
    fork_server.run([sys.executable, "-c", ""], env=environment)  # so that there is one server for both

    def run(rank: int) -> dict:
        own = environment | {"RANK": str(rank), "WORLD_SIZE": "2"}
        done = fork_server.run([sys.executable, PROGRAMS, names, folder, backend], env=own)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return json.loads((folder / f"{rank}.json").read_text())

    with ThreadPoolExecutor() as threads:
        return list(threads.map(run, range(2)))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, node: Path) -> list[dict]:
    return ranks("collectives,pairs,graph", tmp_path_factory.mktemp("collectives"), node)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, node: Path) -> list[dict]:
    return ranks("ddp,fsdp2,tensor_parallel", tmp_path_factory.mktemp("trained"), node)


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory, node: Path) -> list[dict]:
    return ranks("collectives,graph,small_ddp", tmp_path_factory.mktemp("computed"), node, values="cpu")


# --- Data.


def test_collectives_do_what_they_say(seen: list[dict]) -> None:
    for rank in seen:
        facts = rank["collectives"]
        assert set(map(tuple, facts["sums"].values())) == {(3, 4)}
        assert len(facts["sums"]) == 7
        assert facts["operators"] == {"AVG": [1.5, 6], "MIN": [1, 6], "MAX": [2, 6], "PRODUCT": [2, 36]}
        assert facts["found"] == [True]
        assert facts["objects"] == [0, 1000]
        assert facts["told"] == ["a", {"b": 3}]


# What each rank has: of the first, of the second.
PARTS = {
    "scattered": ([3, 6], [9, 12]),
    "swapped": ([0, 10], [1, 11]),
    "gathered": ([[0, 7], [1, 7]], []),
    "part": ([5], [6]),
}


@pytest.mark.parametrize("what", PARTS)
def test_parts_go_to_the_ranks_that_they_are_for(seen: list[dict], what: str) -> None:
    assert tuple(rank["collectives"][what] for rank in seen) == PARTS[what]


def test_ranks_that_both_send_first_receive_and_graphs_reduce_at_each_replay(seen: list[dict]) -> None:
    for rank, facts in enumerate(seen):
        assert facts["pairs"] == {"received": [1 - rank, 9], "together": [1 - rank], "of group": [2]}
        assert facts["graph"] == {"during": [rank + 1, 1], "after": [6, 4]}


def test_late_work_moves_the_same_data(tmp_path: Path, node: Path, seen: list[dict]) -> None:
    late = ranks("pairs,graph", tmp_path, node, FRUGAL_SIM_LATE="1")
    assert late == [{name: rank[name] for name in ("pairs", "graph")} for rank in seen]


def test_training_with_all_values_gives_the_numbers_of_gloo(tmp_path: Path, node: Path, computed: list[dict]) -> None:
    of_gloo = ranks("small_ddp", tmp_path, node, values="cpu", backend="gloo")
    first, second = (rank["small_ddp"] for rank in computed)
    assert [first, second] == [rank["small_ddp"] for rank in of_gloo]
    assert first["sums"] == second["sums"]
    assert first["losses"] != second["losses"] and all(map(math.isfinite, first["losses"]))


def test_graph_is_replayed_with_all_values_too(computed: list[dict], seen: list[dict]) -> None:
    for name in ("collectives", "graph"):
        assert [rank[name] for rank in computed] == [rank[name] for rank in seen]


# --- Memory.


def test_rings_take_memory_beside_the_allocator(trained: list[dict]) -> None:
    # 24 channels, each with 10 MiB to receive and 2 MiB to send.
    assert [rank["ddp"]["nccl"] for rank in trained] == [24 * 12 * MIB] * 2


def test_each_rank_holds_half_of_a_sharded_model(trained: list[dict]) -> None:
    for rank in trained:
        facts = rank["fsdp2"]
        assert facts["sharded"] == facts["gradients"] == facts["whole"] // 2
        assert facts["sharded"] <= facts["held"] < 0.6 * facts["whole"]


def test_tensor_parallel_layers_and_optimizer_state_are_shared_out(trained: list[dict]) -> None:
    for rank in trained:
        assert (rank["tensor_parallel"]["up"], rank["tensor_parallel"]["down"]) == ([1024, 512], [512, 1024])
    assert trained[0]["tensor_parallel"]["own"] == trained[1]["tensor_parallel"]["own"]


@pytest.mark.parametrize("kernel", ["0", "20000000"], ids=["idle", "busy"])
def test_nccl_has_room_beside_a_full_cache_of_ours(tmp_path: Path, node: Path, kernel: str) -> None:
    both = ranks("beside_full_cache", tmp_path, node, ALLOCATOR="frugal", FRUGAL_SIM_KERNEL_NS=kernel)
    rings, receives, sends = 24 * 12 * MIB, 32 * 10 * MIB, 32 * 2 * MIB
    for rank, (first, second) in zip(both, [(sends, receives), (receives, sends)], strict=True):
        in_a_group = dict.fromkeys(("default group", "late group", "DistributedDataParallel"), rings)
        assert rank["beside_full_cache"] == in_a_group | {"pair": first, "all pairs": second}


def test_nccl_finds_no_memory_beside_a_full_cache_of_pytorchs(tmp_path: Path, node: Path) -> None:
    for rank in ranks("beside_full_cache", tmp_path, node, ALLOCATOR="native"):
        assert "out of memory" in rank["beside_full_cache"]["error"]


# --- Errors.


def test_rank_that_dies_is_an_error_of_the_others(tmp_path: Path) -> None:
    done = torchrun("dies", tmp_path)
    assert done.returncode != 0
    assert "exitcode  : 3" in done.stderr
    error = json.loads((tmp_path / "0.json").read_text())["dies"]["error"]
    assert "ncclRemoteError" in error and "rank 1 of 2 has ended" in error


def mapped_by_anyone() -> str:
    """The maps of all processes that may be read. A process may end meanwhile."""
    maps = []
    for path in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            maps.append(path.read_text())
    return "".join(maps)


def test_nothing_is_left_in_shared_memory(seen: list[dict], trained: list[dict]) -> None:
    # Other programs of this machine may use a simulated GPU meanwhile.
    exchanges = list(driver_options.SHARED_MEMORY.glob(f"frugal_nccl-{os.getuid()}-*"))
    mapped = mapped_by_anyone()
    assert not [path for path in exchanges if path.name not in mapped and path.exists()]
    nodes = driver_options.SHARED_MEMORY.glob(f"frugal_alloc-{os.getuid()}-+*")  # and the process whose it is
    assert not [path for path in nodes if not Path("/proc", path.name.rpartition("+")[2]).exists() and path.exists()]
