"""No byte of PyTorch programs is handed on before its last use is ordered, and what is unordered is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import fork_server
import frugal_alloc
import pytest
import simulated_gpu

HERE = Path(__file__).resolve().parent
PACKAGE = Path(frugal_alloc.__file__).resolve().parents[1]
ORDER_VIOLATED = 3
PROGRAMS = ("prefetch", "lend", "reduce_gradients", "replay_graph", "pressure")


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python on a simulated GPU with little memory, the order of its work checked."""
    environment = simulated_gpu.environment(700 << 20) | {"FRUGAL_SIM_ORDER": "1", "FRUGAL_SIM_LATE": "1"} | variables
    environment["PYTHONPATH"] = os.pathsep.join((str(PACKAGE), environment["PYTHONPATH"]))
    command = [sys.executable, *arguments]
    # Where a report would be left if memory ran out.
    with tempfile.TemporaryDirectory() as folder:
        return fork_server.run(command, env=environment, cwd=folder)


def test_programs_that_order_their_work_reuse_no_byte_too_early() -> None:
    done = run(str(HERE / "streams.py"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(f"\n{found}\n{done.stderr}")
    assert tuple(found) == PROGRAMS
    assert all(counts["accesses"] > 50 and counts["violations"] == 0 for counts in found.values())
    accesses = sum(counts["accesses"] for counts in found.values())
    assert f"the order of {accesses} accesses was checked, 0 violations" in done.stderr


def test_each_mistake_of_a_program_is_found_and_ends_it_with_a_status_of_its_own() -> None:
    done = run(str(HERE / "streams.py"), "--wrong")
    assert done.returncode == ORDER_VIOLATED, done.stderr
    found = json.loads(done.stdout)
    print(f"\n{found}")
    assert tuple(found) == PROGRAMS
    assert all(counts["violations"] > 0 for counts in found.values())
    # The model reads what the copy has not written yet.
    first = done.stderr.partition("violations\n")[2].splitlines()[0]
    assert first.startswith("'aten::mul' (operation 1 of ") and "without order after 'copy' (operation 1 of " in first


@pytest.mark.parametrize("touch, told", [("memory", "0 violations"), ("memory + (1 << 40)", "bytes are not mapped")])
def test_what_is_declared_must_be_memory(touch: str, told: str) -> None:
    program = f"""
import ctypes
gpu = ctypes.CDLL("libcudart.so.13")
pointer = ctypes.c_void_p()
assert gpu.cudaMalloc(ctypes.byref(pointer), 4096) == 0
memory = pointer.value
gpu.frugal_sim_touch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p]
assert gpu.frugal_sim_checks_order() == 1
assert gpu.frugal_sim_touch(None, {touch}, 4096, 1, b"kernel") == 1
"""
    done = run("-c", program)
    assert told in done.stderr
    assert done.returncode == (ORDER_VIOLATED if "not mapped" in told else 0)
