"""Asks, in functions and scripts of many shapes, which variables nothing reads any more; needs no torch.

    python liveness_program.py FOLDER-OF-THE-PACKAGE

Ends with status 1 and the differences if an answer is not what the question says.
"""

# Variables that are not used are what this is about.
# ruff: noqa: F841, RET504, RUF059

import pathlib
import sys
import tempfile
import types

sys.path.insert(0, sys.argv[1])
from frugal_alloc._out_of_memory import scene, variables
from frugal_alloc._program import liveness as liveness
from liveness_scripts import SCRIPTS

differences = []


class Stop(Exception):
    pass


def ask(expected, *values):
    """Compares the variables of the caller that are dead in its statement with those expected."""
    frame = sys._getframe(1)
    flow = liveness.Flow(frame.f_code)
    found = scene._walk(frame)[0]
    now = scene.statement(found)
    dead = " ".join(sorted(flow.dead(found.values, frame.f_lasti, now.first, now.last)))
    if dead != expected:
        differences.append(f"{found.function}:{found.line}: {dead!r} is dead, not {expected!r}")
    return values


def straight(a, b):
    c = a + b
    d = ask("a b", c)
    return d


def argument_of_the_call(a):
    return ask("", a)


def loop():
    for i in range(2):
        x = i
        y = ask("y z" if i else "", x)
        z = (x, y)


def loop_that_carries():
    last = total = 0
    for i in range(2):
        ask("", i)
        total = total + last
        last = i
    return total


def while_loop():
    x = y = 3
    while x:
        x = x - 1
        y = ask("y")
    return y


def branches(a, b, c):
    if ask("", a):
        return b
    return c


def conditional_expression(a, b):
    c = b if a else ask("a b")
    return a and c and ask("", b)


def several_lines(a, b, c):
    return ask(
        "c",
        a,
        b,
    )


def handler(a, b):
    try:
        ask("b")
        raise Stop
    except Stop:
        return a


def final(a, b):
    try:
        return ask("b")
    finally:
        a = (a,)


def with_block(a, b):
    with open(__file__) as file:
        ask("b file")
    return a


def closure(a, b):
    def inner():
        return a

    ask("b")
    return inner


def comprehension(a, b):
    values = [b for _ in [a]]
    ask("a")
    return values, b


def comprehension_that_has_run(a, b):
    values = [a for _ in [b]]
    ask("a b", values)


def comprehension_with_the_name_of_a_variable(a, b=(1,)):
    ask("")
    values = [a + 1 for a in b]
    return a, values


def comprehension_with_the_name_of_a_dead_variable(a, b=(1,)):
    ask("a")
    return [a + 1 for a in b]


def comprehensions_within_another(a, b=((1,),), c=1):
    ask("c")
    values = [(a, [c + 1 for c in b]) for b in b for a in b]
    return a, values


def comprehension_whose_error_is_caught(a, b=(1,)):
    ask("")
    try:
        [a.missing for a in b]
    except AttributeError:
        return a


def closure_with_a_parameter_of_the_name(a, b):
    ask("a b")
    return lambda a: a


def closure_that_gives_it_another_value(a, b):
    def inner():
        nonlocal a
        a = b

    ask("")
    return inner


def closure_within_a_closure(a, b):
    ask("b")
    return lambda: lambda: [a for _ in "ab"]


def class_that_reads(a, b):
    ask("b")

    class Later:
        value = a

    return Later


def class_with_a_variable_of_the_name(a, b):
    class Made:
        a = 1
        b = a

    return ask("a b", Made)


def parameter_with_a_builtins_name(a, dir):
    return ask("a dir")


def locals_read_all(a, b):
    ask("")
    return locals()


class Model:
    def eval(self):
        return self


def method_with_a_builtins_name(a, b=Model()):  # noqa: B008
    b.eval()
    return ask("b", a)


def method_with_a_builtins_name_in_a_nested_function(a, b):
    ask("b", a)
    return lambda model: model.eval()


def deleted(a, b):
    c = a
    del a
    ask("b c")


def unpacking(a=(1, (2, 3))):
    b, (c, *d) = a
    ask("a c")
    return b, d


def generator(a, b):
    yield ask("a")
    yield b


def walrus(a, b):
    if (c := ask("a b")) is not None:
        return c
    return None


def swapped(a, b):
    a, b = b, a
    ask("a")
    return b


def rebound(a):
    a = ask("a")
    return a


class WithMethod:
    def method(self, a, b):
        self.value = a
        return ask("a b", self)


def ask_in_script(path, name, source):
    """Runs a script whose question is which of these variables of its are dead; of one that is imported, none is."""

    def ask_there(expected):
        frames = scene.frames()
        (frame,) = [one for one in frames if one.file == str(path) and one.function == "<module>"]
        now = scene.statement(frame)
        flow = variables.flow_of_module(frame, now, frames)
        dead = set(flow.dead(frame.values, frame.offset, now.first, now.last)) & {"mean", "model", "raw"}
        told = " ".join(sorted(dead)) if variables._is_program(frame) else ""
        if told != (expected if name == "__main__" else ""):
            differences.append(f"{told!r} is dead in {name}, not {expected!r}:\n{source}")
        return [1]

    path.write_text(source)
    exec(compile(source, str(path), "exec"), {"__name__": name, "ask": ask_there})


if __name__ == "__main__":
    functions = [value for value in vars().values() if isinstance(value, types.FunctionType)]
    for shape in [function for function in functions if function not in (ask, ask_in_script)]:
        asked = shape.__code__.co_argcount - len(shape.__defaults__ or ())
        result = shape(*range(1, 1 + asked))
        if isinstance(result, types.GeneratorType):
            list(result)
    WithMethod().method(1, 2)
    with tempfile.TemporaryDirectory() as folder:
        for number, source in enumerate(SCRIPTS.split("---\n")):
            ask_in_script(pathlib.Path(folder, f"train_{number}.py"), "__main__", source)
        ask_in_script(pathlib.Path(folder, "imported.py"), "train", SCRIPTS.split("---\n")[0])
    print("\n".join(differences), file=sys.stderr)
    sys.exit(1 if differences else 0)
