"""Programs whose allocations the project records itself: the same seed makes the same recording again.

They run on the simulated GPU with PyTorch's native allocator. Kernels compute nothing and take the time of a model, so
that the host runs ahead of the GPU by the same number of calls in every run.
"""

from __future__ import annotations

import dataclasses
import lzma
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import simulated_gpu
from frugal_alloc._planning.replay import history_files
from frugal_alloc._planning.replay.history import EVENT, FREE, History

from ..generators import recorder

# Of programs.py, which imports torch.
NAMES = (
    "bert60",
    "diffusion",
    "frcnn60",
    "gpt60",
    "gpt_decoder",
    "gpt_inference",
    "prefetch",
    "resnet60",
    "vit_mixed",
)
# Those that go by what they read back from the GPU. The others need no host memory behind its addresses, of which the
# fills of logits alone would take more than 10 GiB.
_READ_BACK = ("frcnn60", "vit_mixed")
DEFAULT_SEED = 20_260_101
# The versions that the recordings were made with. Others may allocate otherwise.
TORCH, TORCHVISION = "2.11", "0.26"

_ROOT = Path(__file__).resolve().parents[2]
_HISTORIES = _ROOT / "bench" / "histories"
_GPU_BYTES = 64 << 30


class RecordingFailed(Exception):
    """The program did not run to its end; the message is one line that says why."""


def file_of(name: str, folder: Path = _HISTORIES) -> Path:
    return folder / f"{name}.json.xz"


def record(name: str, seed: int = DEFAULT_SEED) -> History:
    """Runs the program in a process of its own.

    Raises:
        RecordingFailed
        SimulationError: there is no simulated GPU here.
    """
    environment = simulated_gpu.environment(_GPU_BYTES, backing="none", base=_environment())
    if name in _READ_BACK:
        environment["FRUGAL_SIM_BACKING"] = "memory"
    # The hook may be installed, and would put ours in the place of native.
    environment |= {"FRUGAL_SIM_LATE": "1", "FRUGAL_ALLOC": "0", "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder) / f"{name}.pickle"
        command = [sys.executable, "-m", "bench.recordings.worker", name, str(seed), str(snapshot)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise RecordingFailed(f"{name} ended with status {done.returncode}: {last[:300]}")
        return _with_frees_in_order(history_files.read(snapshot))


def _environment() -> dict[str, str]:
    """Of a process that finds bench/, without what the user has set; where the simulated GPU lies is so for all."""
    base = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FRUGAL_", "PYTORCH_")) or name == "FRUGAL_SIM_LIBRARIES"
    }
    base["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return base


def _with_frees_in_order(history: History) -> History:
    """Frees that follow one another come in the order of their allocations.

    PyTorch drops the weights that autocast has cast in the order of host addresses, which differ from run to run.
    """
    ordered: list[tuple[int, ...]] = []
    frees: list[tuple[int, ...]] = []
    for event in EVENT.iter_unpack(history.events):
        operation, *_, ready = event
        if operation == FREE and not ready:
            frees.append(event)
            continue
        ordered += [*sorted(frees), event]
        frees.clear()
    ordered += sorted(frees)
    return dataclasses.replace(history, events=b"".join(EVENT.pack(*event) for event in ordered))


def write(history: History, path: Path) -> None:
    """As a list of events, packed: without addresses and times, which differ from run to run.

    Beside the pickle of the snapshot it takes a third of the bytes.
    """
    path.write_bytes(lzma.compress(recorder.as_text(history).encode()))
