"""Runs a job of ``jobs/`` without a GPU under an estimator of PyTorch or Hugging Face, and prints the peak it says.

Started by ``estimators.py``, in a process for each job: ``python -m bench.fit.estimate_job METHOD JOB [ARGUMENT ...]``.
"""

from __future__ import annotations

import json
import runpy
import sys
import types
from collections.abc import Callable

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from .programs import JOBS


class _Done(Exception):
    """The model that is estimated has been made."""


def main(method: str, job: str, arguments: list[str]) -> None:
    sys.argv = [job, *arguments]
    sys.path.insert(0, str(JOBS))
    # A job's last act is to ask PyTorch's allocator, which was not used.
    sys.modules["figures"] = types.SimpleNamespace(report=lambda: None)  # type: ignore[assignment]
    print(json.dumps({"peak_bytes": METHODS[method](lambda: runpy.run_path(str(JOBS / job), run_name="__main__"))}))


def mem_tracker(run: Callable[[], object]) -> int:
    """MemTracker, which watches the operators of tensors without memory."""
    return _tracked(run, lambda tracker: None)


def mem_tracker_adapted(run: Callable[[], object]) -> int:
    """MemTracker with a program that is changed for it: see _adapt."""
    return _tracked(run, _adapt)


def _tracked(run: Callable[[], object], prepare: Callable[[MemTracker], None]) -> int:
    tracker = MemTracker()
    prepare(tracker)
    with FakeTensorMode(), tracker:
        run()
    return sum(
        sizes["Total"] for device, sizes in tracker.get_tracker_snapshot("peak").items() if device.type == "cuda"
    )


def _adapt(tracker: MemTracker) -> None:
    """Models are made on the GPU, since under MemTracker none can be moved; it forgets a step's modules after the step,
    since it follows one."""
    torch.set_default_device("cuda")
    convert = torch.nn.Module.to

    def move(module: torch.nn.Module, *arguments: object, **options: object) -> torch.nn.Module:
        dtypes = [argument for argument in arguments if isinstance(argument, torch.dtype)]
        return convert(module, *dtypes) if set(dtypes) - {torch.get_default_dtype()} else module

    torch.nn.Module.to = torch.nn.Module.cuda = move  # type: ignore[assignment,method-assign]
    prepare = torch.optim.Optimizer.__init__

    def after_the_model(optimizer: torch.optim.Optimizer, *arguments: object, **options: object) -> None:
        torch.set_default_device(None)
        prepare(optimizer, *arguments, **options)  # type: ignore[arg-type]

    torch.optim.Optimizer.__init__ = after_the_model  # type: ignore[assignment,method-assign]
    go_back = torch.Tensor.backward

    def backward(loss: torch.Tensor, *arguments: object, **options: object) -> None:
        go_back(loss, *arguments, **options)
        tracker.reset_mod_stats()

    torch.Tensor.backward = backward  # type: ignore[assignment,method-assign]


def accelerate_formula(run: Callable[[], object]) -> int:
    """What ``accelerate estimate-memory`` says of a training with Adam: four times the model, and no activations."""
    from accelerate.utils import calculate_maximum_sizes

    sizes: list[int] = []

    def moved(model: torch.nn.Module, *arguments: object, **options: object) -> torch.nn.Module:
        sizes.append(calculate_maximum_sizes(model)[0])
        raise _Done

    torch.nn.Module.to = torch.nn.Module.cuda = moved  # type: ignore[assignment,method-assign]
    try:
        with torch.device("meta"):
            run()
    except _Done:
        pass
    return 4 * sizes[0]


METHODS = {"MemTracker": mem_tracker, "MemTracker, adapted": mem_tracker_adapted, "accelerate": accelerate_formula}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
