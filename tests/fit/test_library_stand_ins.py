"""What fit says of memory that DeepSpeed and bitsandbytes ask for, shown with stand-ins for them: their files'
names, and how they ask."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

MIB = 1 << 20
TRAINING = """
import itertools, torch, library
weight = torch.nn.Parameter(torch.zeros(1024, 1024, device="cuda"))
optimizer = torch.optim.SGD([weight], 0.1)
model = library.model(weight)
for _ in itertools.count():
    model(torch.randn(16, 1024, device="cuda")).mean().backward()
    optimizer.step()
"""
PAGED = """
import ctypes, torch
def model(weight):
    runtime, states = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.partition('.')[0]}"), ctypes.c_void_p()
    size = ctypes.c_size_t(64 << 20)
    assert runtime.cudaMallocManaged(ctypes.byref(states), size, 1) == 0
    assert runtime.cudaMemPrefetchAsync(states, size, 0, 0, None) == 0
    return torch.nn.Linear(1024, 1024, device="cuda")
"""
SHARDED = """
import torch
from deepspeed.runtime.zero import partition_parameters, stage3
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(0, device="cuda"))
        self.weight.ds_tensor = torch.zeros(8 << 20, dtype=torch.uint8, device="cuda")
        self.bucket = [stage3._setup_for_real_optimizer()]
    def forward(self, batch):
        return batch @ partition_parameters.gather()
def model(weight):
    model = Model()
    model.weight_of_a_layer = weight
    partition_parameters.weight = weight
    return model
"""
DEEPSPEED = {
    "runtime/zero/stage3.py": """
import torch
def _setup_for_real_optimizer():
    return torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
""",
    "runtime/zero/partition_parameters.py": """
import torch
from deepspeed.utils.nvtx import instrument_w_nvtx
def gather():
    return instrument_w_nvtx(torch.cat)([weight[:512], weight[512:]])
""",
    "utils/nvtx.py": """
def instrument_w_nvtx(function):
    def wrapped_fn(*arguments):
        return function(*arguments)
    return wrapped_fn
""",
}


def verdict_with(fit: Any, folder: Path, library: str) -> dict[str, Any]:
    for name, source in {"train.py": TRAINING, "library.py": library}.items():
        (folder / name).write_text(source)
    for name, source in DEEPSPEED.items():
        file = folder / "deepspeed" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    return fit("--memory", "8GiB", "--steps", "3", "--json", "--", sys.executable, folder / "train.py").verdict


def test_managed_memory_counts_in_whole_and_is_named(fit: Any, tmp_path: Path) -> None:
    verdict = verdict_with(fit, tmp_path, PAGED)
    assert verdict["fits"]
    (sentence,) = verdict["not_modelled"]
    assert sentence.startswith("managed memory (64.00 MiB, in the context), which bitsandbytes' paged optimizers have")
    assert verdict["ranks"][0]["peak"]["components"]["context"] == (512 + 64) * MIB


def test_what_zero_gathers_and_sends_is_communication_and_its_shards_are_parameters(fit: Any, tmp_path: Path) -> None:
    verdict = verdict_with(fit, tmp_path, SHARDED)
    (rank,) = verdict["ranks"]
    (forward,) = (moment["components"] for moment in rank["phases"] if moment["phase"] == "forward")
    assert forward["communication"] == (32 + 4) * MIB
    assert forward["parameters"] == (8 + 4) * MIB


def test_a_few_bytes_that_a_library_copies_make_no_batch_longer(fit: Any, tmp_path: Path) -> None:
    copies = "import torch\ncalls = []\nclass Model(torch.nn.Linear):\n    def forward(self, batch):\n        "
    copies += "calls.append(0)\n        torch.ones(len(calls)).cuda()\n        return super().forward(batch)\n"
    verdict = verdict_with(fit, tmp_path, f"{copies}\ndef model(weight):\n    return Model(1024, 1024).cuda()\n")
    assert verdict["largest_so_far"] is None


TRAINED_BY_TRAINER = """
import torch
from transformers.trainer import Trainer
layers = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU()) for _ in range(8)))
Trainer(layers).train()
"""
GENERATING = """
import torch
from transformers.cache_utils import DynamicLayer
class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.keys, self.cache = torch.nn.Linear(1024, 1024), DynamicLayer()
    def forward(self, token):
        return self.cache.update(self.keys(token)).mean()
model = Decoder().cuda()
with torch.no_grad():
    for _ in range(16):
        model(torch.ones(64, 1, 1024, device="cuda"))
"""
TRANSFORMERS = {
    "trainer.py": """
import itertools, torch
class Trainer:
    def __init__(self, model):
        self.model = model.to("cuda")
    def train(self):
        optimizer = torch.optim.AdamW(self.model.parameters(), foreach=False)
        for _ in itertools.count():
            self.model(torch.randn(4096, 1024, device="cuda")).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
""",
    "cache_utils.py": """
import torch
class DynamicLayer:
    def __init__(self):
        self.keys = None
    def update(self, states):
        self.keys = torch.cat([self.keys, states], dim=1) if self.keys is not None else states.clone()
        return self.keys
""",
}


def verdict_of_transformers(fit: Any, folder: Path, program: str) -> dict[str, Any]:
    (folder / "train.py").write_text(program)
    (folder / "transformers").mkdir()
    for name, source in TRANSFORMERS.items():
        (folder / "transformers" / name).write_text(source)
    return fit("--memory", "8GiB", "--steps", "0" if program is GENERATING else "3", "--json", "--", sys.executable,
               folder / "train.py").verdict  # fmt: skip


def test_users_of_a_trainer_are_told_its_settings(fit: Any, tmp_path: Path) -> None:
    texts = [change["text"] for change in verdict_of_transformers(fit, tmp_path, TRAINED_BY_TRAINER)["changes"]]
    assert any("checkpoint the layers" in text and "(gradient_checkpointing=True)" in text for text in texts), texts
    assert any(text.startswith("half the batch") and "per_device_train_batch_size" in text for text in texts), texts


def test_cache_of_keys_and_values_has_a_row(fit: Any, tmp_path: Path) -> None:
    (rank,) = verdict_of_transformers(fit, tmp_path, GENERATING)["ranks"]
    # All of a sequence, and what it is concatenated from.
    assert rank["peak"]["components"]["keys and values"] == (16 + 15) * 64 * 1024 * 4
    assert rank["peak"]["phase"] == "evaluation"
