"""A node that programs share, and a driver that takes memory of its own, as programs meet them.

How programs share a node's memory is in simulated_gpu/tests/compute_node_test.cc.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import package_first, run
from simulated_gpu import driver_options

MIB = 1 << 20
TAKE = """
import ctypes
cuda, driver = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libcuda.so.1")
segment = ctypes.c_void_p()
def malloc(size):
    return cuda.cudaMalloc(ctypes.byref(segment), ctypes.c_size_t(size))
"""


@pytest.fixture
def node() -> Iterator[Path]:
    path = driver_options.node_file(f"test-{uuid.uuid4().hex}")
    yield path
    path.unlink(missing_ok=True)


def run_on(node: Path, code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs a program on the node: GPUs of 64 MiB, of which each process's context takes 4."""
    base = dict(os.environ) | {"FRUGAL_SIM_CONTEXT": str(4 * MIB), "FRUGAL_SIM_NODE": str(node)}
    return run(TAKE + code, 64 * MIB, gpu={"base": base | settings})


@pytest.mark.parametrize("content, mode", [("notes", 0o600), ("", 0o644)])
def test_file_that_is_not_a_nodes_is_refused(node: Path, content: str, mode: int) -> None:
    node.write_text(content)
    node.chmod(mode)
    done = run_on(node, "cuda.cudaSetDevice(0)")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert str(node) in done.stderr
    assert node.read_text() == content


def test_first_launch_fails_on_a_full_device_and_later_ones_do_not(node: Path) -> None:
    # Each kernel is of a module of its own.
    code = """
register, kernels = getattr(cuda, "__cudaRegisterFatBinary"), [ctypes.create_string_buffer(1) for _ in range(2)]
register.restype = ctypes.c_void_p
for kernel in kernels:
    rest = [kernel, None, b"a_kernel", -1, None, None, None, None, None]
    getattr(cuda, "__cudaRegisterFunction")(ctypes.c_void_p(register(None)), *rest)
def launch(number):
    return cuda.cudaLaunchKernelExC(ctypes.create_string_buffer(64), kernels[number], None)
def load():
    return driver.cuModuleLoadData(ctypes.byref(ctypes.c_void_p()), b"")
def stream():
    return cuda.cudaStreamCreate(ctypes.byref(ctypes.c_void_p()))
print(launch(0), malloc(56 << 20), launch(0))
print(launch(1), load(), cuda.cudaDeviceSetLimit(0, ctypes.c_size_t(4096)), stream())
print(cuda.cudaFree(segment), launch(1), load(), stream())
"""
    done = run_on(node, code, FRUGAL_SIM_FULL="1", FRUGAL_SIM_MODULE=str(4 * MIB))
    assert done.stdout == "0 0 0\n2 2 2 2\n0 0 0 0\n", done


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
        driver_options.node_file(name).unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
    for setting in (f"COSTS={costs}", "DRIVER_TIME=1", "FULL=1", f"NODE={driver_options.node_file(name)}"):
        assert f"FRUGAL_SIM_{setting}" in done.stdout.split()


def test_command_with_several_gpus_has_a_node_of_its_own_while_it_runs() -> None:
    done = simulate("--gpus", "2", "--", sys.executable, "-c", f"{SHOW}; import ctypes; ctypes.CDLL('libcuda.so.1')")
    assert done.returncode == 0, done.stderr
    settings = dict(setting.split("=", 1) for setting in done.stdout.split())
    assert settings["FRUGAL_SIM_NODE"]
    assert not Path(settings["FRUGAL_SIM_NODE"]).exists()
    assert "FRUGAL_SIM_NODE" not in simulate("--", sys.executable, "-c", SHOW).stdout


def test_node_that_a_killed_command_left_goes_with_the_next() -> None:
    own = driver_options.SHARED_MEMORY / f"frugal_alloc-{os.getuid()}-+{2**30}"  # no process has such a number
    own.touch()
    assert simulate("--gpus", "2", "--", "true").returncode == 0
    assert not own.exists()


def test_costs_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "costs").write_text("unmap 30\nmap fast\n")
    load = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    done = simulate("--driver-costs", str(tmp_path / "costs"), "--", sys.executable, "-c", load)
    assert done.returncode == 2
    assert "line 2, 'map fast'" in done.stderr
