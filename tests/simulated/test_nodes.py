"""Programs that share a node, its limits, and a driver that takes memory of its own, as programs meet them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import package_first
from frugal_alloc._simulation import simulated_driver, simulated_gpu

MIB = 1 << 20
# A program that does what lines on its stdin ask, one call each, and prints the status and what was asked for.
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcudart.so.13")
cuda.frugal_sim_mapped_handles.restype = ctypes.c_uint64
driver = ctypes.CDLL("libcuda.so.1")
register = getattr(cuda, "__cudaRegisterFatBinary")
register.restype = ctypes.c_void_p
segments, kernels = [], []
for line in sys.stdin:
    what, *amount = line.split()
    status, said = 0, 0
    if what == "malloc":
        segments.append(ctypes.c_void_p())
        status = cuda.cudaMalloc(ctypes.byref(segments[-1]), ctypes.c_size_t(int(amount[0])))
        if status:
            segments.pop()
    elif what == "free":
        status = cuda.cudaFree(segments.pop())
    elif what == "info":
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        status, said = cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)), free.value
    elif what == "mapped":
        said = cuda.frugal_sim_mapped_handles()
    elif what == "context":
        status = cuda.cudaSetDevice(0)
    elif what == "kernel":  # of a module of its own
        kernels.append(ctypes.create_string_buffer(1))
        rest = [kernels[-1], None, b"a_kernel", -1, None, None, None, None, None]
        getattr(cuda, "__cudaRegisterFunction")(ctypes.c_void_p(register(None)), *rest)
    elif what == "launch":
        status = cuda.cudaLaunchKernelExC(ctypes.create_string_buffer(64), kernels[int(amount[0])], None)
    elif what == "module":
        status = driver.cuModuleLoadData(ctypes.byref(ctypes.c_void_p()), b"")
    elif what == "stack":
        status = cuda.cudaDeviceSetLimit(0, ctypes.c_size_t(int(amount[0])))
    elif what == "stream":
        status = cuda.cudaStreamCreate(ctypes.byref(ctypes.c_void_p()))
    print(status, said, flush=True)
"""
OUT_OF_MEMORY = 2


class Program:
    def __init__(self, environment: dict[str, str]) -> None:
        line = [sys.executable, "-c", PROGRAM]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(line, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def ask(self, line: str) -> tuple[int, int]:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, self.process.stderr.read()
        status, said = answer.split()
        return int(status), int(said)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def node() -> Iterator[Path]:
    path = simulated_driver.node_file(f"test-{uuid.uuid4().hex}")
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def start(node: Path) -> Iterator:
    """Starts a program on the node: GPUs of 64 MiB, of which each process's context takes 4."""
    with contextlib.ExitStack() as programs:

        def one(**settings: str) -> Program:
            base = package_first(dict(os.environ)) | {"FRUGAL_SIM_CONTEXT": str(4 * MIB), "FRUGAL_SIM_NODE": str(node)}
            program = Program(simulated_gpu.environment(64 * MIB, base=base | settings))
            programs.callback(program.kill)
            return program

        yield one


def test_second_program_is_out_of_memory_when_the_first_holds_it(start) -> None:
    first, second = start(), start()
    assert first.ask(f"malloc {40 * MIB}") == (0, 0)
    assert second.ask("info") == (0, 16 * MIB)
    assert second.ask(f"malloc {18 * MIB}") == (OUT_OF_MEMORY, 0)
    assert second.ask(f"malloc {16 * MIB}") == (0, 0)
    assert first.ask("info") == (0, 0)
    assert first.ask("free") == (0, 0)
    assert second.ask("info") == (0, 40 * MIB)


def test_what_a_killed_program_held_is_free(start) -> None:
    first, second = start(), start()
    assert first.ask(f"malloc {60 * MIB}") == (0, 0)
    assert second.ask(f"malloc {2 * MIB}") == (OUT_OF_MEMORY, 0)
    first.kill()
    assert second.ask(f"malloc {60 * MIB}") == (0, 0)
    assert second.ask("mapped") == (0, 1)


def test_program_with_other_gpus_is_refused(start, node: Path) -> None:
    first = start()
    assert first.ask("context") == (0, 0)
    second = start(FRUGAL_SIM_MAPPINGS="7")
    _, error = second.process.communicate("context\n")
    assert second.process.returncode == 2
    assert error.count("\n") == 1
    assert str(node) in error and "set the same" in error


@pytest.mark.parametrize("content, mode", [("notes", 0o600), ("", 0o644)])
def test_file_that_is_not_a_nodes_is_refused(start, node: Path, content: str, mode: int) -> None:
    node.write_text(content)
    node.chmod(mode)
    program = start()
    _, error = program.process.communicate("context\n")
    assert program.process.returncode == 2
    assert error.count("\n") == 1 and str(node) in error
    assert node.read_text() == content


# --- A full device.


@pytest.fixture
def full(start) -> Program:
    program = start(FRUGAL_SIM_FULL="1", FRUGAL_SIM_MODULE=str(4 * MIB))
    assert [program.ask("kernel")[0] for _ in range(2)] == [0, 0]
    return program


def test_first_launch_fails_on_a_full_device_and_later_ones_do_not(full: Program) -> None:
    assert full.ask("launch 0") == (0, 0)
    assert full.ask(f"malloc {56 * MIB}") == (0, 0)
    assert full.ask("launch 0") == (0, 0)
    for what in ("launch 1", "module", "stack 4096", "stream"):
        assert full.ask(what) == (OUT_OF_MEMORY, 0), what
    assert full.ask("free") == (0, 0)
    for what in ("launch 1", "module", "stream"):
        assert full.ask(what) == (0, 0), what


# --- The command.


def simulate(*arguments: str) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "frugal_alloc", "simulate", "--memory", "1GiB", *arguments]
    environment = package_first(dict(os.environ))
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=600)


SHOW = "import os; print(*(f'{k}={v}' for k, v in sorted(os.environ.items()) if k.startswith('FRUGAL_SIM_')))"


def test_options_reach_the_driver(tmp_path: Path) -> None:
    costs = tmp_path / "costs"
    costs.write_text("map 3\n")
    name = f"test-{uuid.uuid4().hex}"
    options = ["--node", name, "--driver-costs", str(costs), "--driver-time", "--full"]
    try:
        done = simulate(*options, "--", sys.executable, "-c", SHOW)
    finally:
        simulated_driver.node_file(name).unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
    for setting in (f"COSTS={costs}", "DRIVER_TIME=1", "FULL=1", f"NODE={simulated_driver.node_file(name)}"):
        assert f"FRUGAL_SIM_{setting}" in done.stdout.split()


def test_command_with_several_gpus_has_a_node_of_its_own_while_it_runs() -> None:
    done = simulate("--gpus", "2", "--", sys.executable, "-c", f"{SHOW}; import ctypes; ctypes.CDLL('libcuda.so.1')")
    assert done.returncode == 0, done.stderr
    settings = dict(setting.split("=", 1) for setting in done.stdout.split())
    assert settings["FRUGAL_SIM_NODE"]
    assert not Path(settings["FRUGAL_SIM_NODE"]).exists()
    assert "FRUGAL_SIM_NODE" not in simulate("--", sys.executable, "-c", SHOW).stdout


def test_node_that_a_killed_command_left_goes_with_the_next() -> None:
    own = simulated_driver.SHARED_MEMORY / f"frugal_alloc-{os.getuid()}-+{2**30}"  # no process has such a number
    own.touch()
    assert simulate("--gpus", "2", "--", "true").returncode == 0
    assert not own.exists()


@pytest.mark.parametrize("name", ["", "../other", "a b", "x" * 65])
def test_node_without_a_name_is_refused(name: str) -> None:
    done = simulate("--node", name, "--", "true")
    assert done.returncode == 2
    assert "--node" in done.stderr.splitlines()[-1]


def test_costs_that_are_not_there_or_not_costs_are_refused(tmp_path: Path) -> None:
    done = simulate("--driver-costs", str(tmp_path / "none"), "--", "true")
    assert done.returncode == 2
    assert "--driver-costs" in done.stderr.splitlines()[-1]
    (tmp_path / "costs").write_text("unmap 30\nmap fast\n")
    load = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    done = simulate("--driver-costs", str(tmp_path / "costs"), "--", sys.executable, "-c", load)
    assert done.returncode == 2
    assert "line 2, 'map fast'" in done.stderr
