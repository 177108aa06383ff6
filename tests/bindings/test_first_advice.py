"""The first thing that an out-of-memory error says to change is carried out, and the program then fits."""

from __future__ import annotations

import contextlib
import ctypes
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import frugal_alloc
import programs_out_of_memory as programs
import pytest
import torch
from binding_helpers import MIB, collect, cuda_runtime, limit, room
from frugal_alloc import _tracking
from frugal_alloc._out_of_memory import ownership
from frugal_alloc._tracking import timeline
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
    (r"^make the small tensors of .* or as one tensor", lambda told: {"at_once": True}),
    (r"^`helper` .* is not needed while line \d+ .* make it afterwards", lambda told: {"helper_first": False}),
)

# A program, and the MiB of rooms in which it runs out of memory at different places.
ERRORS = (
    (programs.distances, (3000, 6000, 12000)),
    (programs.distances_while_training, (3000, 6000)),
    (programs.training, (200, 300, 500, 700, 800, 900, 1000)),
    (programs.training_from_loader, (200, 300, 400, 500, 600, 700, 750)),
    (programs.language, (500, 900, 1500, 2500, 3500, 4000, 4200)),
    (programs.tied_language, (300, 460, 1000)),
    (programs.one_long_text, (260, 400, 500)),
    (programs.distillation, (150, 200, 250, 300)),
    (programs.distilled, (450, 500, 900)),
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
    (programs.pooled, (100, 150, 200)),
    (programs.hour_glass, (120, 200)),
    (programs.growing_wide, (1000, 2000)),
    (programs.spread, (640,)),
)

# An earlier step has run whole: with how many MiB, the batch that is told is nearly the largest. A step of few samples
# shows little beside the workspace of cuBLAS, where that comes and goes with each call: then a larger one may fit.
SMALL_STEP = programs.growing_from_the_first
AFTER_A_STEP = (
    (programs.growing_images, (150, 220)),
    (SMALL_STEP, (400, 650)),
    (programs.growing_from_loader, (150, 200)),
)


needs_saved_tensors = pytest.mark.skipif(
    not ownership.can_walk(), reason="this torch does not tell what autograd has saved"
)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    # What an earlier program of the same function needed says nothing of this one.
    _tracking.current().batches = timeline.BatchPeaks()
    yield
    collect()


def carried_out(text: str) -> dict[str, Any]:
    """The arguments of the program that do as the first advice says."""
    advice = line_of("Change first", text)
    for pattern, change in CARRIED_OUT:
        if told := re.search(pattern, advice):
            return change(told)
    raise AssertionError(text)


def rows(of: Iterable[tuple[Callable[..., None], tuple[int, ...]]]) -> list[Any]:
    return [pytest.param(program, size, id=f"{program.__name__}-{size}") for program, sizes in of for size in sizes]


@needs_saved_tensors
@pytest.mark.parametrize(("program", "size"), rows(ERRORS))
def test_first_advice_is_enough(program: Callable[..., None], size: int) -> None:
    with room(size * MIB):
        text = failure(program)
        collect()
        program(**carried_out(text))


@needs_saved_tensors
@pytest.mark.parametrize(
    ("program", "size", "why"),
    [
        (programs.distilled, 220, "the backward that follows takes more"),
        (programs.gathered_features, 120, "`found` is to keep what is made of them"),
    ],
)
def test_batch_that_fits_now_is_no_promise_where_more_is_needed_later(
    program: Callable[..., None], size: int, why: str
) -> None:
    with room(size * MIB):
        text = failure(program)
    assert re.search(f"at most [0-9]+, as {why}", line_of("Change first", text)), text


@needs_saved_tensors
@pytest.mark.parametrize(("program", "size"), rows(AFTER_A_STEP))
def test_batch_is_nearly_the_largest_where_an_earlier_step_has_run(program: Callable[..., None], size: int) -> None:
    with room(size * MIB):
        text = failure(program)
        collect()
        batch = carried_out(text)["batch"]
        program(batch)
        collect()
        if "and maybe a larger one" in text:
            assert program is SMALL_STEP, text
        else:
            failure(program, batch + math.ceil(batch / 9))


LIMIT, OTHERS = 600 * MIB, 8 << 30


@contextlib.contextmanager
def limited_to(size: int) -> Iterator[None]:
    torch.cuda.empty_cache()
    frugal_alloc.enable(memory_limit=str(size))
    try:
        yield
    finally:
        frugal_alloc.enable(memory_limit="off")


@needs_saved_tensors
@pytest.mark.parametrize("limited", [limited_to, limit])
@pytest.mark.parametrize("program", [programs.training, programs.language, programs.wide_model])
def test_limit_that_is_raised_as_told_is_enough(program: Callable[..., None], limited: Callable) -> None:
    with limited(LIMIT):
        text = failure(program)
    collect()
    told = re.search(r"^the limit \(.+\) leaves .* unused: raise it by (\d+) MiB\.", line_of("Change first", text))
    assert told, text
    with limited(LIMIT + int(told[1]) * MIB):
        program()


@pytest.mark.parametrize("program", [programs.training, programs.moved])
def test_memory_that_others_let_go_as_told_is_enough(program: Callable[..., None]) -> None:
    """Memory that a library takes past PyTorch counts as another process's does."""
    runtime, address = cuda_runtime(), ctypes.c_void_p()

    @contextlib.contextmanager
    def others_holding(size: int) -> Iterator[None]:
        assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size)) == 0
        try:
            yield
        finally:
            runtime.cudaFree(address)

    with room(OTHERS + 140 * MIB):
        with others_holding(OTHERS):
            text = failure(program)
        collect()
        told = re.search(r"(\d+) MiB less there is enough", line_of("Change first", text))
        assert told, text
        with others_holding(OTHERS - int(told[1]) * MIB):
            program()
            collect()
