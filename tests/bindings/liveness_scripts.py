"""Scripts that ask which of their variables nothing reads any more, for liveness_program.py."""

# Functions of a script may read its variables later, unless they are done.
SCRIPTS = """
class Model:
    def eval(self):
        return self
raw = [1]
mean = raw + [1]
model = Model().eval()
rest = ask("mean model raw")
---
def prepare():
    return raw[0]
raw = [1]
mean = prepare()
rest = ask("raw")
print(mean)
---
def shift():
    return raw + [1]
def prepare():
    return shift()[0]
raw = [1]
mean = prepare()
rest = ask("mean raw")
---
def work():
    return ask("raw")
raw = [1]
print(raw)
work()
---
class Batch:
    def size(self):
        return self.raw
raw = [1]
rest = ask("raw")
---
def report():
    return raw[0]
raw = [1]
rest = ask("")
report()
---
def report():
    return raw[0]
raw = [1]
rest = []
for _ in range(5):
    report()
    rest.append(ask(""))
---
def inner():
    return raw[0]
def report():
    return inner()
raw = [1]
rest = ask("")
report()
---
import atexit
def report():
    print(raw)
atexit.register(report)
raw = [1]
rest = ask("")
---
def batches():
    yield 1
    yield raw
raw = [1]
iterator = batches()
next(iterator)
rest = ask("")
next(iterator)
---
def make():
    return lambda: raw
raw = [1]
later = make()
rest = ask("")
later()
---
class Model:
    def forward(self):
        return raw
raw = [1]
rest = ask("")
---
def main():
    rest = ask("")
    return rest, raw
raw = [1]
main()
---
raw = [1]
rest = ask("")
print(globals()["raw"])
---
def run(raw, key=None):
    raw.index(1)
    return run
class Settings:
    raw = 1
    size = raw
def count(values):
    return [raw for raw in values]
def load():
    raw = [1]
    return raw
raw = load()
run(raw, key=count(raw)).raw = Settings.raw
rest = ask("raw")
run([1])
count([1])
load()
---
raw = [1]
mean = [raw + [1] for _ in range(2)]
model = sorted(mean, key=lambda one: raw[0])
mean = sum(raw[0] for _ in model)
rest = ask("mean model raw")
---
raw = [1]
values = (raw[0] for _ in range(2))
rest = ask("")
print(*values)
---
raw = [1]
key = lambda one: raw[0]
rest = ask("")
print(sorted("ab", key=key))
---
def work(values):
    return sorted(values, key=lambda one: raw[0])
raw = [1]
work("ab")
rest = ask("raw")
---
raw = [1]
rest = ask("")
print([raw for raw in range(2)], raw)
---
raw = [1]
rest = ask("")
print([raw for _ in range(2)])
---
raw = [1]
rest = ask("")
class Later:
    raw = raw
---
class Made:
    size = 1
    del size
    sizes = [size for size in "ab"]
    def read(self):
        return raw
raw = [1]
rest = ask("")
---
class Made:
    if len(__name__) > 20:
        raw = 2
    def read(self):
        return self.raw
raw = [1]
class Later(Made):
    mean = raw
model = [1]
rest = ask("model raw")
---
def load():
    global raw
    raw = [1]
    return ask("mean")
raw = mean = [1]
load()
---
def swap():
    global raw
    raw = raw + [1]
raw = [1]
rest = ask("")
swap()
---
def report():
    return lambda: raw
raw = [1]
rest = ask("")
def later():
    return report()
print(later()())
---
import gc
def report():
    print(raw)
gc.freeze()
reports = [report]
raw = [1]
rest = ask("")
reports[0]()
---
raw = [1]
mean = [raw and ask("") for _ in range(2)]
for _ in range(2):
    print([ask("mean") for _ in raw])
    mean = 1
"""
