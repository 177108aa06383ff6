"""Which GPU a command line asks for: one of the table by its name, or one of so much memory."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from frugal_alloc._common.messages import Refused

from . import gpu_models, launcher
from .modelled_machine import variable

CONTEXT = variable("context")


class ChoiceError(Refused):
    """No GPU is asked for, or one that cannot be; the message is one line that says what to do."""


def choose(options: argparse.Namespace, base: Mapping[str, str] = os.environ) -> tuple[int, dict[str, str]]:
    """The memory of each GPU in bytes, and the variables that tell the simulated GPU its model.

    --memory goes before the model's memory, and a context in ``base`` before the model's.

    Raises:
        ChoiceError: neither option is given, or one is not understood.
    """
    if options.gpu is None and options.memory is None:
        raise ChoiceError("one of these is required: --memory SIZE, --gpu NAME")
    memory, settings = 0, {}
    if options.gpu is not None:
        try:
            model = gpu_models.find(options.gpu)
        except gpu_models.UnknownGpu as error:
            raise ChoiceError(f"--gpu: {error}") from None
        if model.unified and options.gpus != 1:
            raise ChoiceError(f"--gpu: there is one {model.name} in a machine, since its memory is the host's")
        memory = model.memory_bytes
        settings = {name: value for name, value in model.environment().items() if name != CONTEXT or name not in base}
    if options.memory is not None:
        try:
            memory = launcher.parse_size(options.memory)
        except launcher.SizeError as error:
            raise ChoiceError(f"--memory: {error}") from None
    return memory, settings
