"""Runs the binding tests on the simulated GPU: each file in processes of its own.

CUDA's libraries can be replaced only as a process starts, and frugal_alloc is enabled once in a process. So pytest
collects here, for each file, one item for each moment of enabling (before CUDA has started, and in the middle of a run
with live tensors), which runs the file in a child pytest in the right environment. Files that are about what was before
have both; the others have the second with FRUGAL_TEST_ALL=1. Some run once more with pools:mapped. With
FRUGAL_TEST_GPU=real the children use the GPU of this machine instead, and leave out the tests that steer the simulated
one; with "shared" also those that fill it. FRUGAL_TEST_MEMORY is the memory of the simulated GPU (16GiB): the tests
take their sizes from the GPU that they find.

The simulated GPU checks the order of all work, which touches its memory when it runs: a byte that is handed on before
its last use is ordered, or unmapped under work that is outstanding, ends the child with an exit status of its own, and
so a grandchild (see run_python).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # where pyproject.toml is not there to have it done
import files_on_gpu  # noqa: E402

MEMORY = os.environ.get("FRUGAL_TEST_MEMORY", "16GiB")

# When this process, which runs one file, enables frugal_alloc: "before CUDA" or "mid-run". Not set: the outer process.
MOMENT = os.environ.get("FRUGAL_TEST_MOMENT")
MOMENTS = ("before CUDA", "mid-run")
ON_REAL_GPU = os.environ.get("FRUGAL_TEST_GPU") in ("real", "shared")

# What a file needs that is not the usual one GPU with virtual memory.
GPUS = {
    f"test_{name}.py": 2 for name in ("distributed", "foreign_streams", "mem_pools", "peers", "random_pools", "sleep")
}
# What sees PyTorch's operators for these two is a frame of Python, and some tests look at frames.
FRAMES_ALONE = {"FRUGAL_SIM_ORDER": "0", "FRUGAL_SIM_LATE": "0"}
WITH_VALUES = {"FRUGAL_SIM_VALUES": "cpu", "FRUGAL_SIM_WORKSPACES": "modelled"}
VALUED = ("sleep", "sleep_owners", "sleep_programs", "sleep_tags", "mapped_pools", "memory_saver")
VALUED += ("random_pools", "vllm")
ENVIRONMENT = {"test_segments.py": {"FRUGAL_SIM_VMM": "0"}}
ENVIRONMENT |= {f"test_{name}.py": WITH_VALUES for name in VALUED}
ENVIRONMENT |= {f"test_{name}.py": FRAMES_ALONE for name in ("explanations", "journal", "every_python")}
# What is older than enabling is what these are about, or what they count and show.
BOTH_MOMENTS = ("test_history.py", "test_private_pools.py", "test_statistics.py", "test_streams.py")
BOTH_MOMENTS += ("test_tensors.py", "test_toggle.py")
# What holds for pools of graphs whose memory is mapped as well.
MAPPED_TOO = ("test_capture_reuse.py", "test_mem_pools.py", "test_pool_checkpoints.py", "test_random_pools.py")
# These start processes of their own for each moment.
ONE_MOMENT = ("test_journal.py", "test_mapped_pools.py", "test_memory_saver.py", "test_processes.py")
ONE_MOMENT += ("test_every_python.py", "test_refusals.py", "test_same_as_native.py", "test_settings.py")
ONE_MOMENT += ("test_sleep_programs.py", "test_switches.py", "test_distributed.py", "test_unified_memory.py")
ONE_MOMENT += ("test_vllm.py",)


def _environment(file: str, moment: str, **more: str) -> dict[str, str]:
    """That a file's tests run in."""
    if importlib.util.find_spec("frugal_alloc") is None:
        sys.path.insert(0, str(ROOT / "bindings"))
    import frugal_alloc

    environment = dict(os.environ)
    if not ON_REAL_GPU:
        import simulated_gpu

        try:
            memory = simulated_gpu.parse_size(MEMORY)
            environment = simulated_gpu.environment(memory, gpus=GPUS.get(file, 1))
        except (simulated_gpu.SizeError, simulated_gpu.SimulationError) as error:
            raise files_on_gpu.ChildFailed(str(error)) from None
        environment.update({"FRUGAL_SIM_ORDER": "1", "FRUGAL_SIM_LATE": "1"} | ENVIRONMENT.get(file, {}))
    package = str(Path(frugal_alloc.__file__).parents[1])
    paths = (package, str(ROOT / "tests"), environment.get("PYTHONPATH"))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    # What a user's environment says is not what is tested. The GPU check packs this folder without the one at the root.
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"):
        environment.pop(name, None)
    return environment | {"FRUGAL_TEST_MOMENT": moment} | more


class FileByMoment(pytest.File):
    def collect(self):
        name = self.path.name
        has_both = name in BOTH_MOMENTS or (os.environ.get("FRUGAL_TEST_ALL") == "1" and name not in ONE_MOMENT)
        for moment in MOMENTS if has_both else MOMENTS[:1]:
            environment = partial(_environment, name, moment)
            yield files_on_gpu.Item.from_parent(self, name=f"[{moment}]", environment=environment)
        if name in MAPPED_TOO:
            environment = partial(_environment, name, MOMENTS[0], FRUGAL_ALLOC_CONF="pools:mapped")
            yield files_on_gpu.Item.from_parent(self, name="[mapped pools]", environment=environment)


if MOMENT is None:

    def pytest_pycollect_makemodule(module_path, parent):
        return FileByMoment.from_parent(parent, path=module_path)

else:

    def pytest_collection_modifyitems(items):
        for item in items:
            if ON_REAL_GPU and item.get_closest_marker("simulated_gpu"):
                item.add_marker(pytest.mark.skip(reason="steers the simulated GPU"))

    @pytest.fixture(scope="session", autouse=True)
    def enabled(request):
        """frugal_alloc, enabled at this process's moment. Files that start processes of their own do without."""
        if Path(str(request.node.items[0].path)).name in ONE_MOMENT:
            return None
        import frugal_alloc
        import torch

        if MOMENT == "mid-run":
            _OLDER.extend(torch.empty(size, dtype=torch.uint8, device="cuda") for size in _OLDER_SIZES)
            idle = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
            del idle
            _BEFORE.update(torch.cuda.memory_stats())
        frugal_alloc.enable()
        if MOMENT == "before CUDA":
            assert not torch.cuda.is_initialized(), "enable() must not start CUDA"
        else:
            _AFTER.update(torch.cuda.memory_stats())
        return frugal_alloc

    @pytest.fixture
    def older():
        """Takes a tensor that is older than the swap; skips the test where there is none."""
        if MOMENT != "mid-run":
            pytest.skip("there are no older tensors when enabled before CUDA")
        return _OLDER.pop

    @pytest.fixture
    def swap():
        """torch.cuda.memory_stats() right before and right after the swap."""
        if MOMENT != "mid-run":
            pytest.skip("nothing is swapped when enabled before CUDA")
        return _BEFORE, _AFTER

    @pytest.fixture
    def nothing_is_cached():
        """Nothing is afterwards."""
        yield
        import gc

        import torch

        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    @pytest.fixture(autouse=True)
    def switched_on(enabled):
        """Every test begins with frugal_alloc on."""
        if enabled is not None:
            enabled.enable()


def pytest_configure(config):
    config.addinivalue_line("markers", "simulated_gpu: steers the simulated GPU, so it cannot run on a real one")


_OLDER: list = []
_OLDER_SIZES = [size << 20 for size in (1, 2, 3, 5, 8, 13, 64)]
_BEFORE: dict[str, int] = {}
_AFTER: dict[str, int] = {}
