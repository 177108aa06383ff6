"""The first thing that an out-of-memory error says to change is carried out, and the program then fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import programs_out_of_memory as programs
import pytest
import torch
from binding_helpers import MIB, collect, room
from frugal_alloc._out_of_memory import ownership
from out_of_memory_messages import failure, line_of

# What the advice says, and the arguments of a program that carry it out.
CARRIED_OUT: tuple[tuple[str, Callable[[re.Match], dict[str, Any]]], ...] = (
    (r"^a batch of (\d+) (fits|would have fit)", lambda told: {"batch": int(told[1])}),
    (r"^fewer at a time: .* (\d+) would fit", lambda told: {"batch": int(told[1])}),
    (r"^this one tensor of .* in (\d+) pieces", lambda told: {"pieces": int(told[1])}),
    (r"^the loss in (\d+) chunks", lambda told: {"chunks": int(told[1])}),
    (r"^call .* under torch\.no_grad\(\)", lambda told: {"gradients": False}),
    (r"^half precision \(the model", lambda told: {"dtype": torch.bfloat16}),
    (r"^eval_accumulation_steps=(\d+) in", lambda told: {"eval_accumulation_steps": int(told[1])}),
    (r"^\w+\.enable_tiling\(\)", lambda told: {"tiling": True}),
    (r"^\w+\.enable_slicing\(\)", lambda told: {"slicing": True}),
    (r'^sliding_window_inference\(\.\.\., device="cpu"\)', lambda told: {"device": "cpu"}),
    (r"^`\w+` on the host", lambda told: {"on_host": True}),
    (r"^`\w+` keeps \d+ results with their graphs: .* keep \.detach\(\)", lambda told: {"detached": True}),
    (r"^`\w+` holds \d+ tensors on the GPU .* keep them on the host \(\.cpu\(\)\)", lambda told: {"on_host": True}),
    (r"foreach=False", lambda told: {"foreach": False}),
    (r"torch\.optim\.Adafactor keeps next to nothing", lambda told: {"optimizer": "Adafactor"}),
    (r"^`helper` .* is not needed while line \d+ .* make it afterwards", lambda told: {"helper_first": False}),
)

# A program, and the MiB of rooms in which it runs out of memory at different places.
ERRORS = (
    (programs.distances, (3000, 6000, 12000)),
    (programs.distances_while_training, (3000, 6000)),
    (programs.training, (200, 300, 500, 700, 800, 900, 1000)),
    (programs.training_from_loader, (200, 300, 400, 500, 600, 700, 750)),
    (programs.language, (500, 900, 1500, 2500, 3500, 4000, 4200)),
    (programs.one_long_text, (260, 400, 500)),
    (programs.distillation, (150, 200, 250, 300)),
    (programs.evaluation, (80, 120, 160, 200)),
    (programs.trainers_evaluation, (250, 500, 1000, 1500)),
    (programs.predictions, (250, 500, 700)),
    (programs.grown_predictions, (250, 500, 700)),
    (programs.wide_model, (500, 600, 700, 800, 900)),
    (programs.losses, (100, 200)),
    (programs.attention, (300, 450, 500)),
    (programs.inference, (160, 200, 240)),
    (programs.moved, (140, 180)),
    (programs.decoded, (100, 130)),
    (programs.decoded_batch, (500, 1000)),
    (programs.segmented, (150, 250)),
    (programs.helped, (270, 320)),
)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    collect()


def carried_out(text: str) -> dict[str, Any]:
    """The arguments of the program that do as the first advice says."""
    advice = line_of("Change first", text)
    for pattern, change in CARRIED_OUT:
        if told := re.search(pattern, advice):
            return change(told)
    raise AssertionError(text)


@pytest.mark.skipif(not ownership.can_walk(), reason="this torch does not tell what autograd has saved")
@pytest.mark.parametrize(
    ("program", "size"),
    [pytest.param(program, size, id=f"{program.__name__}-{size}") for program, sizes in ERRORS for size in sizes],
)
def test_first_advice_is_enough(program: Callable[..., None], size: int) -> None:
    with room(size * MIB):
        text = failure(program)
        collect()
        program(**carried_out(text))
