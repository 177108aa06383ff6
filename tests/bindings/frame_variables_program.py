"""Looks at the variables of frames in many states, as the explanation of an error does; needs no torch.

    python frame_variables_program.py FOLDER-OF-THE-PACKAGE

Ends with status 1 and what went wrong if a function's variables are not what they were before, or stay alive.
"""

import sys
import weakref

sys.path.insert(0, sys.argv[1])
from frugal_alloc._heap import ended_frames, roots
from frugal_alloc._out_of_memory import scene

wrong = []


class Value:
    pass


def look():
    """As an error's explanation and the search for a leak's holders do."""
    found = scene.frames()
    for frame in found:
        frame.values.clear()
    roots.of_program()
    living = ended_frames.living()
    for keeper in ended_frames.keepers():
        ended_frames.held_by(ended_frames.ended(keeper, living))


def check(what, is_right):
    if not is_right:
        wrong.append(what)


def made_by_exec():
    exec("made = 5")
    before = eval("locals().get('made')")
    look()
    check("what exec() made is as it was", eval("locals().get('made')") == before)


def made_by_exec_with_the_name_of_a_comprehensions():
    exec("hidden = 5")
    [hidden + 1 for hidden in range(3)]
    before = eval("locals().get('hidden')")
    look()
    check("what exec() made is as it was, a comprehension's name, too", eval("locals().get('hidden')") == before)


def taken(a):
    b = a
    mine = locals()
    look()
    check("what locals() gave is as it was", (mine["a"], mine["b"]) == (1, 1))


def let_go():
    value = Value()
    alive = weakref.ref(value)
    look()
    del value
    check("a value is not kept alive", alive() is None)


def let_go_by_a_closure():
    value = Value()
    alive = weakref.ref(value)

    def inner():
        nonlocal value
        look()
        value = None

    inner()
    check("a closure's value is not kept alive", alive() is None)


def fails(value):
    inner = [value]
    raise ValueError(inner is None)


def let_go_with_its_error():
    value = Value()
    alive = weakref.ref(value)
    try:
        fails(value)
    except ValueError as error:
        kept = error
    del value
    look()
    (frame,) = ended_frames.ended(kept, ended_frames.living())
    held = [one for one in ended_frames.held_by([frame]) if one is alive()]
    check("an error keeps what failed with it", (frame.f_code, len(held)) == (fails.__code__, 1))
    del frame, held, kept
    check("what an error has kept goes with it", alive() is None)


def waits_after_an_error(kept):
    try:
        yield fails(1)
    except ValueError as error:
        kept.append(error)
    yield


def of_a_generator_that_waits():
    kept = []
    generator = waits_after_an_error(kept)
    next(generator)
    ended = ended_frames.ended(kept[0], ended_frames.living())
    check("a generator that waits has not ended", [frame.f_code for frame in ended] == [fails.__code__])
    generator.close()
    ended = ended_frames.ended(kept[0], ended_frames.living())
    check("a generator that is closed has ended", len(ended) == 2)


def of_errors_with_causes():
    try:
        try:
            fails(1)
        except ValueError as error:
            raise KeyError from error
    except KeyError as error:
        found = {name: type(one) for name, one in ended_frames.with_causes(error).items()}
        check("an error leads to its cause", found == {"": KeyError, ".__cause__": ValueError})
        check("an error that is handled is found", any(one is error for one in ended_frames.handled()))
    check("what was handled is no more", not ended_frames.handled())


def computes(a, b=2):
    c = a + b
    d = c + b
    return a, b, c, d


def at_each(event, at, stops):
    """What a debugger does: it is called at an event, and evaluates something that runs out of memory."""

    def called(frame, what, argument):
        if frame.f_code is computes.__code__ and what == event:
            at.append(what)
            if stops:
                sys.settrace(None)
                sys.setprofile(None)
            look()
        return called

    return called


def at_each_by_any_arguments(event, at, stops):
    called = at_each(event, at, stops)

    def passed_on(*arguments):
        called(*arguments)
        return passed_on

    return passed_on


def watched(install, event, stops, make):
    at = []
    install(make(event, at, stops))
    try:
        result = computes(1)
    except UnboundLocalError as error:
        result = error
    finally:
        install(None)
    check(f"variables stay at {event} of {install.__name__}, {stops}: {result}", result == (1, 2, 3, 5))
    check(f"{event} of {install.__name__} comes", at)


def changed_by_a_debugger():
    """A debugger's assignment reaches the variable after its call; until then it is in the frame's dictionary."""

    def called(frame, what, argument):
        if frame.f_code is computes.__code__ and what == "line" and "c" in frame.f_locals:
            variables = frame.f_locals
            variables["c"] = 40
            look()
            sys.settrace(None)
        return called

    sys.settrace(called)
    result = computes(1)
    sys.settrace(None)
    check(f"a debugger's assignment lasts: {result}", result == (1, 2, 40, 42))


if __name__ == "__main__":
    made_by_exec()
    made_by_exec_with_the_name_of_a_comprehensions()
    taken(1)
    let_go()
    let_go_by_a_closure()
    let_go_with_its_error()
    of_a_generator_that_waits()
    of_errors_with_causes()
    for make in (at_each, at_each_by_any_arguments):
        for stops in (False, True):
            for event in ("call", "line", "return"):
                watched(sys.settrace, event, stops, make)
            for event in ("call", "return"):
                watched(sys.setprofile, event, stops, make)
    changed_by_a_debugger()
    print("\n".join(wrong), file=sys.stderr)
    sys.exit(1 if wrong else 0)
