"""Where epochs end: as the program says, as its loaders show, or by windows of steps."""

from __future__ import annotations

import pytest
from fake_library import FakeLibrary
from frugal_alloc._tracking.epochs import MOST_WINDOWS, Epochs
from frugal_alloc._tracking.training import LoaderWatch


class Thing:
    """A loader or an iterator: it need only be referred to weakly."""


@pytest.fixture
def library() -> FakeLibrary:
    return FakeLibrary()


@pytest.fixture
def epochs(library) -> Epochs:
    return Epochs(library)


def steps(epochs: Epochs, count: int) -> None:
    for _ in range(count):
        if epochs.step():
            epochs.end_window()


@pytest.mark.parametrize("count", [16, 31, 32, 33, 64, 1000, 100_000])
def test_there_are_always_sixteen_to_thirty_two_windows(count, epochs, library):
    steps(epochs, count)
    assert min(16, count) <= library.epochs_ended() < MOST_WINDOWS
    assert library.epochs_ended() * epochs.window_steps <= count < (library.epochs_ended() + 1) * epochs.window_steps


def test_windows_go_on_while_the_programs_epochs_are_few(epochs, library):
    for _ in range(3):
        steps(epochs, 100)
        epochs.end(called=False)
    assert (epochs.ended, epochs.steps_per_epoch, epochs.found_by) == (3, 100, "data_loader")
    assert library.epochs_ended() >= 16


def test_programs_epochs_take_over_once_a_window_is_as_long(epochs, library):
    for _ in range(40):
        steps(epochs, 4)
        epochs.end(called=False)
    assert epochs.window_steps is None
    before = library.epochs_ended()
    steps(epochs, 4)
    assert library.epochs_ended() == before
    epochs.end(called=False)
    assert library.epochs_ended() == before + 1


def test_backward_passes_before_the_first_step_of_an_optimizer_are_no_steps(epochs):
    steps(epochs, 3)
    epochs.forget_steps()
    for _ in range(2):
        steps(epochs, 10)
        epochs.end(called=False)
    assert epochs.steps_per_epoch == 10


def test_calls_start_the_count_anew(epochs):
    for _ in range(5):
        steps(epochs, 10)
        epochs.end(called=False)
    epochs.end(called=True)
    assert (epochs.ended, epochs.found_by) == (1, "called")


def test_what_was_all_made_in_the_current_epoch_may_go_with_it(epochs, library):
    steps(epochs, 10)
    epochs.end(called=False)
    boundary = library.epochs_ended()
    steps(epochs, 10)
    assert not epochs.bears_out(0, {1}, {boundary, boundary + 3})
    assert epochs.bears_out(0, {1}, {boundary - 1, boundary + 3})


def test_what_does_not_grow_from_epoch_to_epoch_is_replaced(epochs, library):
    for growth in (0, 100):
        epochs = Epochs(library)
        for number in range(4):
            steps(epochs, 100)
            library.hold(1000 + number * growth)
            epochs.end(called=False)
        assert epochs.bears_out(0, {1}, {0}) == (growth > 0)


def test_steps_of_the_epoch_that_runs_count_for_none(epochs):
    for _ in range(2):
        steps(epochs, 100)
        epochs.end(called=False)
    steps(epochs, 37)
    assert epochs.steps_per_epoch == 100


def test_windows_that_are_halved_leave_the_last_end_where_it_was(epochs, library):
    steps(epochs, 20)
    epochs.end(called=False)
    boundary = library.epochs_ended()
    steps(epochs, 12)
    assert (boundary, library.epochs_ended()) == (20, 16)
    # Births are halved with the windows: these are of the first steps after the end.
    assert not epochs.bears_out(0, {1}, {boundary // 2})
    assert epochs.bears_out(0, {1}, {boundary // 2 - 1})


def test_what_was_noted_at_guessed_ends_says_nothing_once_epochs_are_called(epochs, library):
    library.hold(1000)
    for _ in range(4):
        steps(epochs, 100)
        epochs.end(called=False)
    assert not epochs.bears_out(0, {1}, {0})
    steps(epochs, 100)
    epochs.end(called=True)
    assert epochs.bears_out(0, {1}, {0})


class Loop:
    """Loaders as a program uses them."""

    def __init__(self) -> None:
        self.watch = LoaderWatch()
        self.steps = 0
        self.ends = 0

    def start(self, loader: Thing) -> Thing:
        iterator = Thing()
        self.ends += self.watch.start(loader, iterator, self.steps)
        return iterator

    def give(self, iterator: Thing) -> None:
        self.ends += self.watch.give(iterator, self.steps)[0]

    def run_through(self, loader: Thing, batches: int = 4, steps_per_batch: int = 1) -> None:
        iterator = self.start(loader)
        for _ in range(batches):
            self.give(iterator)
            self.steps += steps_per_batch
        self.ends += self.watch.run_dry(iterator, self.steps)


@pytest.fixture
def loop() -> Loop:
    return Loop()


# Passes as (loader, or "" for one made anew; steps for each of its four batches), and the epochs that they end.
PASSES = {
    "training starts over": ([("training", 1)] * 5, 4),
    "evaluations by another loader": ([("training", 1), ("evaluation", 0), ("evaluation", 0)] * 5, 4),
    "evaluations by the training's own": ([("training", 1), ("training", 0)] * 10, 10),
    "made anew for each epoch": ([("", 1)] * 5, 4),
    "nothing ever stepped": ([("any", 0)] * 5, 4),
    "nothing ever stepped, and made anew": ([("", 0)] * 5, 4),
    "nothing ever stepped, and a second beside it": ([("first", 0), ("second", 0)], 0),
}


@pytest.mark.parametrize(("passes", "ends"), PASSES.values(), ids=PASSES)
def test_pass_of_the_trainings_loader_ends_an_epoch_when_the_next_begins(passes, ends, loop) -> None:
    loaders: dict[str, Thing] = {}
    for name, steps_per_batch in passes:
        loop.run_through(loaders.setdefault(name, Thing()) if name else Thing(), steps_per_batch=steps_per_batch)
    assert loop.ends == ends


def test_evaluation_within_an_epoch_ends_none(loop):
    training, evaluation = Thing(), Thing()
    for _ in range(3):
        iterator = loop.start(training)
        for _ in range(6):
            loop.give(iterator)
            loop.steps += 1
            loop.run_through(evaluation, batches=2, steps_per_batch=0)
        loop.watch.run_dry(iterator, loop.steps)
    assert loop.ends == 2


def test_of_two_loaders_side_by_side_the_first_counts(loop):
    first, second = Thing(), Thing()
    for _ in range(4):
        one, two = loop.start(first), loop.start(second)
        for number in range(6):
            if number == 3:
                two = loop.start(second)
            loop.give(one)
            loop.give(two)
            loop.steps += 1
        loop.watch.run_dry(one, loop.steps)
    assert loop.ends == 3


def test_loop_that_breaks_off_ends_its_epoch_when_it_starts_over(loop):
    loader = Thing()
    for _ in range(4):
        iterator = loop.start(loader)
        for _ in range(3):
            loop.give(iterator)
            loop.steps += 1
    assert loop.ends == 3


def test_loaders_are_not_kept(loop):
    for _ in range(5):
        loop.run_through(Thing())
    assert len(loop.watch._passes) == 0


def serve(epochs, library, count: int, clock: list[float]) -> None:
    """Windows of calls end, one a minute."""
    for _ in range(count):
        clock[0] += 60.0
        library.epoch_end()
        epochs.calls_ended()


def test_windows_of_calls_know_how_long_they_take(library):
    clock = [0.0]
    epochs = Epochs(library, lambda: clock[0])
    epochs.count_calls()
    serve(epochs, library, 1, clock)
    assert epochs.seconds_per_epoch is None
    serve(epochs, library, 9, clock)
    assert epochs.seconds_per_epoch == 60.0


def test_one_end_alone_leaves_the_windows_of_calls_in_place(library):
    clock = [0.0]
    epochs = Epochs(library, lambda: clock[0])
    epochs.count_calls()
    serve(epochs, library, 10, clock)
    epochs.end(called=True)
    assert (epochs.found_by, epochs.ended, library.epochs_ended()) == ("calls", 1, 10)
    epochs.end(called=True)
    assert (epochs.found_by, epochs.ended, epochs.seconds_per_epoch) == ("called", 2, None)
