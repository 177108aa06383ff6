"""Tests of the simulated GPU under PyTorch. Those that use a GPU run in a process that is started on it."""

from __future__ import annotations

import sys
from functools import partial

import files_on_gpu
from checkout import PACKAGES, package_first

# The file, and whether its values are computed.
ON_GPU = {
    "test_exact_values.py": "cpu",
    "test_green_contexts.py": "none",
    "test_nvml.py": "none",
    "test_small_values.py": "none",
    "test_stand_ins.py": "none",
    "test_values.py": "cpu",
}
# Under late work small tensors are not computed, and nothing is compiled, since a mode sees PyTorch's operators.
AT_ONCE = {"test_exact_values.py", "test_small_values.py"}
MEMORY = 8 << 30

if str(PACKAGES) not in sys.path:
    sys.path.insert(0, str(PACKAGES))


def _environment(file: str) -> dict[str, str]:
    import simulated_gpu

    environment = simulated_gpu.environment(MEMORY, values=ON_GPU[file])
    return package_first(environment | {"FRUGAL_SIM_LATE": "0" if file in AT_ONCE else "1"})


if not files_on_gpu.is_inside():

    def pytest_pycollect_makemodule(module_path, parent):
        name = module_path.name
        if name in ON_GPU:
            return files_on_gpu.FileOnGpu.from_parent(parent, path=module_path, environment=partial(_environment, name))
        return None
