"""Compares what the library of the first argument reads of its own stack with what Python says, in many kinds of
calls; prints how many there were."""

import asyncio
import ctypes
import sys
import threading
import traceback

library = ctypes.CDLL(sys.argv[1])
library.read_stack.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
text = ctypes.create_string_buffer(1 << 20)
compared = 0


def compare():
    global compared
    said, count = list(traceback.walk_stack(sys._getframe())), library.read_stack(text, len(text))
    lines = [tuple(line.split("\t")) for line in text.value.decode().splitlines()]
    assert count == len(lines), (count, lines)
    expected = [
        # 3.10 has no qualified names.
        (code.co_filename, code.co_name, str(line), getattr(code, "co_qualname", ""))
        for code, line in ((frame.f_code, line) for frame, line in said)
    ]
    assert lines == expected[: len(lines)], (lines, expected)
    assert len(lines) == min(len(expected), 128)
    compared += 1


def generate():
    compare()
    yield 1
    compare()


async def wait():
    compare()
    await asyncio.sleep(0)
    compare()


class Späh:
    def __getattr__(self, name):
        compare()
        return name

    def größe(self):
        return (
            compare(),
            [compare() for _ in range(2)],
        )

    def 大きさ(self):
        compare()


def recurse(depth):
    compare() if depth == 0 else recurse(depth - 1)


def catch():
    try:
        raise ValueError
    except ValueError:
        compare()
    finally:
        compare()


compare()
list(generate())
asyncio.run(wait())
Späh().größe()
Späh().大きさ()
assert Späh().anything == "anything"
sorted([2, 1], key=lambda item: compare() or item)
recurse(40)
recurse(200)
catch()
exec(compile("\n\n\ncompare()", "/somewhere/ein ordner/übung 大.py", "exec"))
eval("compare()")
threads = [threading.Thread(target=compare)]
for thread in threads:
    thread.start()
    thread.join()

# One thread reads without the interpreter's lock, while another holds it until the first has read.
counts = []
reader = threading.Thread(target=lambda: counts.append(library.read_while_held()))
reader.start()
ctypes.PyDLL(sys.argv[1]).hold_until_read()
reader.join()
assert counts[0] >= 3
compared += 1
print(compared)
