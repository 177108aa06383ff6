"""How long gradients stay, read from the code of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from frugal_alloc._out_of_memory import gradients, scene
from frugal_alloc._out_of_memory.gradients import Stay

found: list[Stay] = []


def forward() -> Any:
    found.append(gradients.stay(scene.frames()[1:]))
    return Anything()


class Anything:
    """A loss, a model, or an optimizer."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def cleared_after_the_step(optimizer: Any) -> None:
    for _ in range(1):
        loss = forward()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def cleared_before_the_forward(optimizer: Any) -> None:
    for _ in range(1):
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        optimizer.step()


def cleared_before_the_backward(optimizer: Any) -> None:
    for _ in range(1):
        loss = forward()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def accumulated(optimizer: Any) -> None:
    for i in range(1):
        loss = forward()
        loss.backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def cleared_by_the_caller(optimizer: Any) -> None:
    for _ in range(1):
        passes()
        optimizer.step()
        optimizer.zero_grad()


def passes() -> None:
    forward().backward()


def never_cleared(_: Any) -> None:
    for _ in range(1):
        passes()


def no_backward_in_sight(_: Any) -> None:
    forward()


@pytest.mark.parametrize(
    ("step", "stay"),
    [
        (cleared_after_the_step, Stay.GONE),
        (cleared_before_the_forward, Stay.GONE),
        (cleared_before_the_backward, Stay.CLEARED),
        (accumulated, Stay.ADDED),
        (cleared_by_the_caller, Stay.GONE),
        (never_cleared, Stay.ADDED),
        (no_backward_in_sight, Stay.ADDED),
    ],
)
def test_gradients_stay_until_the_code_clears_them(step: Callable[[Any], None], stay: Stay) -> None:
    found.clear()
    step(Anything())
    assert found == [stay]
