"""Callbacks tell frugal_alloc of phases and epochs; each with its real library where that is installed."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from typing import Any

import frugal_alloc
import pytest

# Of a Trainer that does nothing but train.
QUIET = {
    "accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
    "enable_model_summary": False,
}  # fmt: skip


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(name: str, told: list[str], tmp_path: Any) -> None:
    library = pytest.importorskip(name, reason="it is not installed")
    import torch
    from frugal_alloc.integrations import lightning

    importlib.reload(lightning)  # what the program uses may have changed since another test
    demos = importlib.import_module(f"{name}.demos.boring_classes")
    path = str(tmp_path / "report.html")
    trainer = library.Trainer(
        max_epochs=2, limit_train_batches=2, limit_val_batches=1, limit_test_batches=1, limit_predict_batches=1,
        default_root_dir=tmp_path, callbacks=[lightning.MemoryReport(path)], **QUIET,
    )  # fmt: skip
    model = demos.BoringModel()
    trainer.fit(model)
    validation = ["+validation", "-validation"]
    training = ["+train", *validation, "epoch", *validation, "epoch", "-train"]
    assert told == ["enable", *validation, *training, "report", f"page {path}"]
    told.clear()
    trainer.test(model)
    trainer.predict(model, torch.utils.data.DataLoader(torch.ones(2, 32)))
    assert told == ["enable", "+test", "-test", "enable", "+prediction", "-prediction"]


def test_a_training_that_fails_leaves_no_phase_open(told: list[str], tmp_path: Any) -> None:
    library = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from frugal_alloc.integrations.lightning import MemoryReport
    from lightning.pytorch.demos.boring_classes import BoringModel

    class Failing(BoringModel):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            raise RuntimeError("no more")

    trainer = library.Trainer(
        max_epochs=1, num_sanity_val_steps=0, default_root_dir=tmp_path, callbacks=[MemoryReport()], **QUIET
    )
    with pytest.raises(RuntimeError, match="no more"):
        trainer.fit(Failing())
    assert told == ["enable", "+train", "-train"]


def test_transformers(told: list[str], tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    import torch
    from frugal_alloc.integrations.transformers import MemoryReport

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            output = self.layer(x)
            return {"loss": (output - labels).square().mean(), "logits": output}

    data = [{"x": torch.ones(4), "labels": torch.ones(1)} for _ in range(8)]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=4, use_cpu=True, report_to=[],
        eval_strategy="epoch", save_strategy="no", logging_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = transformers.Trainer(
        Model(), arguments, train_dataset=data, eval_dataset=data, callbacks=[MemoryReport()]
    )
    trainer.train()
    epoch = ["epoch", "+evaluation", "-evaluation"]
    assert told == ["enable", "+train", *epoch, *epoch, "-train", "report"]
    told.clear()
    trainer.evaluate()
    assert told == ["+evaluation", "-evaluation"]


def test_ignite(told: list[str]) -> None:
    engine = pytest.importorskip("ignite.engine", reason="pytorch-ignite is not installed")
    from frugal_alloc.integrations.ignite import MemoryReport

    trainer, evaluator = (engine.Engine(lambda _, batch: batch) for _ in range(2))
    trainer.add_event_handler(engine.Events.EPOCH_COMPLETED, lambda _: evaluator.run([1]))
    MemoryReport().attach(trainer, validation=evaluator)
    trainer.run([1, 2], max_epochs=2)
    epoch = ["+validation", "-validation", "epoch"]
    assert told == ["enable", "+train", *epoch, *epoch, "-train", "report"]


@pytest.fixture
def detectron2(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """What of Detectron2 a hook meets, as its documentation has it: HookBase, and a trainer that calls hooks."""
    engine, utils = types.ModuleType("detectron2.engine"), types.ModuleType("detectron2.utils")

    class HookBase:
        def before_train(self) -> None: ...
        def after_train(self) -> None: ...
        def before_step(self) -> None: ...
        def after_step(self) -> None: ...

    class TrainerBase:
        def register_hooks(self, hooks: list[Any]) -> None:
            self._hooks = hooks
            for hook in hooks:
                assert isinstance(hook, HookBase)
                hook.trainer = self

        def train(self, start_iter: int, max_iter: int) -> None:
            self._call("before_train")
            for self.iter in range(start_iter, max_iter):
                self._call("before_step")
                self._call("after_step")
            self._call("after_train")

        def _call(self, name: str) -> None:
            for hook in self._hooks:
                getattr(hook, name)()

    engine.HookBase, engine.TrainerBase = HookBase, TrainerBase
    utils.comm = types.SimpleNamespace(is_main_process=lambda: True)
    for name, module in (("detectron2", types.ModuleType("detectron2")), (engine.__name__, engine)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, utils.__name__, utils)
    monkeypatch.delitem(sys.modules, "frugal_alloc.integrations.detectron2", raising=False)
    return engine


def train(detectron2: Any, steps: int, **options: Any) -> Any:
    from frugal_alloc.integrations.detectron2 import MemoryReport

    trainer = detectron2.TrainerBase()
    trainer.register_hooks([MemoryReport(**options)])
    trainer.train(0, steps)
    return trainer


def test_detectron2(told: list[str], detectron2: Any) -> None:
    train(detectron2, 7, period=3)
    assert told == ["enable", "+train", "epoch", "epoch", "-train", "report"]


def test_a_gpu_that_cannot_be_used_does_not_end_the_training(
    told: list[str], detectron2: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise frugal_alloc.FrugalAllocError("no CUDA here")

    monkeypatch.setattr(frugal_alloc, "enable", refuse)
    train(detectron2, 2)
    assert told == ["+train", "-train", "report"]
    assert capfd.readouterr().err == "frugal_alloc: goes on without frugal_alloc: no CUDA here\n"


def test_a_report_that_fails_does_not_end_the_training(
    told: list[str], detectron2: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise OSError("disk full\nreally")

    monkeypatch.setattr(frugal_alloc, "report", fail)
    train(detectron2, 2, enable=False)
    assert told == ["+train", "-train"]
    assert capfd.readouterr().err == "frugal_alloc: no report: disk full\n"


def test_what_is_not_material_is_written_and_not_printed(
    told: list[str], detectron2: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from frugal_alloc.integrations.detectron2 import MemoryReport

    report = frugal_alloc.report()
    monkeypatch.setattr(frugal_alloc, "report", lambda: report)
    trainer = detectron2.TrainerBase()
    trainer.register_hooks([MemoryReport(path="run.json")])
    for report.verdicts in ([{"material": False}], [{"material": False}, {"material": True}]):
        trainer.train(0, 2)
    run = ["enable", "+train", "-train"]
    assert told == [*run, "json run.json", *run, "report", "json run.json"]


@pytest.mark.parametrize("name", ["lightning", "transformers", "detectron2", "ignite", "prometheus"])
def test_a_library_that_is_missing_is_named_in_one_line(name: str) -> None:
    code = (
        "import sys\n"
        "for one in ('lightning.pytorch', 'pytorch_lightning', 'transformers', 'detectron2.engine', 'ignite.engine',\n"
        "            'prometheus_client'): sys.modules[one] = None\n"
        f"try: import frugal_alloc.integrations.{name}\n"
        "except ImportError as error: print(error)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    line, has_torch = done.stdout.splitlines()
    assert line.startswith(f"frugal_alloc.integrations.{name} needs ")
    assert has_torch == "False"


def test_modules_are_imported_when_they_are_first_used() -> None:
    code = (
        "import sys, frugal_alloc\n"
        "sys.modules['transformers'] = None\n"
        "print('frugal_alloc.integrations' in sys.modules)\n"
        "print(frugal_alloc.integrations.tensorboard.MemoryScalars.__name__)\n"
        "print('frugal_alloc.integrations.ignite' in sys.modules)\n"
        "try: frugal_alloc.integrations.transformers\n"
        "except ImportError as error: print(error)\n"
        "try: frugal_alloc.integrations.keras\n"
        "except AttributeError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines() == [
        "False",
        "MemoryScalars",
        "False",
        "frugal_alloc.integrations.transformers needs transformers: pip install transformers",
        "module 'frugal_alloc.integrations' has no attribute 'keras'",
    ], done.stderr
