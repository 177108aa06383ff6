"""Tests of the simulated GPU under PyTorch. Those that use a GPU run in a process that is started on it.

CUDA's libraries can be replaced only as a process starts. So for each file named in ON_GPU pytest collects one item
here, which runs the file's tests in a pytest of its own, on the simulated GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from checkout import PACKAGE, package_first

# The file, and whether its values are computed.
ON_GPU = {
    "test_exact_values.py": "cpu",
    "test_green_contexts.py": "none",
    "test_nvml.py": "none",
    "test_plausible.py": "none",
    "test_small_values.py": "none",
    "test_stand_ins.py": "none",
    "test_values.py": "cpu",
}
# Under late work small tensors are not computed, and nothing is compiled, since a mode sees PyTorch's operators.
AT_ONCE = {"test_exact_values.py", "test_plausible.py", "test_small_values.py"}
INSIDE = "FRUGAL_TEST_ON_SIMULATED_GPU"
MEMORY = 8 << 30

if str(PACKAGE) not in sys.path:
    sys.path.insert(0, str(PACKAGE))


class ChildFailed(Exception):
    """Its message is what the child printed."""


class FileOnGpu(pytest.Item):
    def runtest(self) -> None:
        from frugal_alloc._simulation import simulated_gpu

        late = "0" if self.path.name in AT_ONCE else "1"
        environment = simulated_gpu.environment(MEMORY, values=ON_GPU[self.path.name])
        environment |= {INSIDE: "1", "FRUGAL_SIM_LATE": late}
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "--no-header", "-p", "no:cacheprovider", str(self.path)]
        if keyword := self.config.getoption("keyword"):
            command += ["-k", keyword]
        done = subprocess.run(command, env=package_first(environment), capture_output=True, text=True, timeout=1800)
        nothing_selected = keyword and done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
        if done.returncode != 0 and not nothing_selected:
            raise ChildFailed(done.stdout + done.stderr)

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value) if isinstance(excinfo.value, ChildFailed) else super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"{self.path.name} on the simulated GPU"


class OnGpu(pytest.File):
    def collect(self):
        yield FileOnGpu.from_parent(self, name="[simulated GPU]")


if INSIDE not in os.environ:

    def pytest_pycollect_makemodule(module_path, parent):
        if module_path.name in ON_GPU:
            return OnGpu.from_parent(parent, path=module_path)
        return None
