"""What PyTorch's tests run in: a Python, packages and environment variables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from named_tests import BadInput, Setting

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = Path.home() / ".cache" / "frugal_alloc" / "pytorch_tests"
GPU_MEMORY = 16 << 30

sys.path[:0] = [str(ROOT / "bindings"), str(ROOT / "simulated_gpu" / "python")]


class Workplace:
    """The Python, packages and environment that tests run in."""

    def __init__(self, python: Path, allocator: str, real: bool) -> None:
        """With `allocator` as tools/pytorch_tests/worker.py has it."""
        self.python = python
        self.allocator = allocator
        self._real = real
        self._extensions = tempfile.TemporaryDirectory(prefix="acceptance-")  # what tests compile
        self._packages = self._install_packages()
        self._check()

    def environment(self, setting: Setting) -> dict[str, str]:
        """What a worker starts with. Those of one thread follow each other, so that they share built extensions."""
        base = {name: value for name, value in os.environ.items() if not name.startswith("FRUGAL_ALLOC")}
        for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"):
            base.pop(name, None)
        if not self._real:
            import simulated_gpu

            try:
                values = "cpu" if setting.values else "none"
                base = simulated_gpu.environment(GPU_MEMORY, setting.gpus, values, base=base)
            except simulated_gpu.SimulationError as error:
                raise BadInput(str(error)) from None
        if setting.expandable:
            base["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        paths = [str(ROOT / "bindings"), *self._packages, base.get("PYTHONPATH", "")]
        base["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        base["PATH"] = os.pathsep.join([f"{folder}/bin" for folder in self._packages] + [base.get("PATH", "")])
        base["TORCH_EXTENSIONS_DIR"] = f"{self._extensions.name}/{threading.get_ident()}"
        base["MAX_JOBS"] = "1"
        if "CUDA_HOME" not in base and (home := self._cuda_home()):
            base["CUDA_HOME"] = home
        return base

    def _ask(self, code: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        return subprocess.run([self.python, "-c", code], env=environment, capture_output=True, text=True)

    def _install_packages(self) -> list[str]:
        """A folder with the packages that PyTorch's tests need; none where the Python has them."""
        needed = [line for line in (HERE / "requirements.txt").read_text().split("\n") if line and line[0] != "#"]
        version = "import sys; print('python%d.%d' % sys.version_info[:2], flush=True)"
        asked = self._ask(f"{version}; import {', '.join(needed)}")
        if asked.returncode == 0:
            return []
        if not asked.stdout:
            raise BadInput(f"{self.python} cannot be run: {asked.stderr.strip()}")
        folder = CACHE / asked.stdout.strip()
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            print(f"acceptance: installing {' '.join(needed)} into {folder}", file=sys.stderr)
            command = [self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", folder]
            if subprocess.run([*command, *needed]).returncode != 0:
                raise BadInput(f"PyTorch's tests need {', '.join(needed)}: install them for {self.python}")
            (folder / "complete").touch()
        return [str(folder)]

    def _check(self) -> None:
        code = "import torch, expecttest\n"
        if self.allocator != "native":
            code += "import frugal_alloc\nfrugal_alloc.enable()\n"
        done = self._ask(code + "assert torch.cuda.is_available(), 'no CUDA device'", self.environment(Setting()))
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["it does not start"])[-1]
            raise BadInput(f"{self.python}: {reason}; tools/setup makes an environment that can run the tests")

    def _cuda_home(self) -> str | None:
        """Where CUDA's headers are for extensions that tests compile: torch's own wheels bring them."""
        if shutil.which("nvcc") or Path("/usr/local/cuda/include/cuda_runtime_api.h").exists():
            return None
        code = "import glob, nvidia; print(*[p for n in nvidia.__path__ for p in glob.glob(n + '/cu1?')])"
        homes = self._ask(code).stdout.split()
        return homes[0] if homes else None
