"""Which of several optimizers' steps are the training's."""

from __future__ import annotations

from frugal_alloc._tracking.training import ABANDONED_AFTER, StepCounter


class Optimizer:
    """Stands for one."""


def counted(*steps: Optimizer) -> int:
    counter = StepCounter()
    for optimizer in steps:
        counter.note(optimizer)
    return counter.count


def test_critic_that_steps_more_often_counts_with_its_generator() -> None:
    generator, critic = Optimizer(), Optimizer()
    assert counted(*([generator, *[critic] * 5] * 6)) == 6


def test_inner_optimizer_of_each_task_does_not_take_over() -> None:
    outer = Optimizer()
    tasks = [Optimizer() for _ in range(6)]
    assert counted(*(one for task in tasks for one in (outer, *[task] * 5))) == 6


def test_one_that_stepped_beside_the_main_one_takes_over_only_after_long() -> None:
    main, other = Optimizer(), Optimizer()
    both = [main, other] * 3
    assert counted(*both, *[other] * 6) == 3
    assert counted(*both, *[other] * 9) > 3


def test_next_optimizer_takes_over_from_one_that_is_gone_or_done_with() -> None:
    counter = StepCounter()
    first, second, third = Optimizer(), Optimizer(), Optimizer()
    counter.note(first)
    del first
    assert counter.note(second)
    steps = [counter.note(third) for _ in range(ABANDONED_AFTER + 1)]
    assert steps == [False] * (ABANDONED_AFTER - 1) + [True, True]
