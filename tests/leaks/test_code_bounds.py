"""What the program's code lets a collection have, where it says so."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
from frugal_alloc._heap.names import Name
from frugal_alloc._tracking import code_bounds
from frugal_alloc._tracking.code_bounds import Limit

# What adds to `kept`, a dictionary or a list, and what it may have.
BOUNDED = {
    "the oldest goes": ("kept[key] = x\nif len(kept) > MOST: kept.pop(next(iter(kept)))", "len(kept) > MOST", 100),
    "before it is added": ("if MOST <= len(kept): del kept[min(kept)]\nkept[key] = x", "MOST <= len(kept)", 100),
    "all go": ("if len(kept) == 2 * MOST and key: kept.clear()\nkept[key] = x", "len(kept) == 2 * MOST", 200),
    "as long as there are more": ("kept[key] = x\nwhile len(kept) > 7: kept.popitem()", "len(kept) > 7", 7),
    "only while there is room": ("if len(kept) < MOST: kept[key] = x", "len(kept) < MOST", 100),
    "none once it is full": ("if len(kept) >= MOST: return\nkept[key] = x", "len(kept) >= MOST", 100),
    "one of them is replaced": (
        "if len(kept) < 9: heapq.heappush(kept, x)\nelse: heapq.heapreplace(kept, x)",
        "len(kept) < 9",
        9,
    ),
    "a variable of the function": ("most = 5\nkept.append(x)\nif len(kept) > most: kept.pop(0)", "len(kept) > most", 5),
    "an argument's default": ("kept.append(x)\nif len(kept) > given: kept.pop(0)", "len(kept) > given", 30),
    "an object's attribute": (
        "kept.append(x)\nif len(kept) > Of.most: kept.pop(0)",
        "len(kept) > Of.most",
        40,
    ),
    "an index modulo a number": ("kept[key % MOST] = x", "key % MOST", 100),
    "a variable modulo a number": ("place = key % MOST\nkept[place] = x", "key % MOST", 100),
    "a slice": ("global kept\nkept.append(x)\nkept = kept[-MOST:]", "kept[-MOST:]", 100),
    "all but a slice": ("kept.append(x)\ndel kept[:-20]", "kept[:-20]", 20),
    "a function that is given it": ("put(kept, key, x)", "len(cache) > MOST", 100),
    "another function": ("kept.append(x)\ntrim()", "len(kept) > 60", 60),
}
UNBOUNDED = {
    "nothing says so": "kept[key] = x",
    "nothing goes": "kept[key] = x\nif len(kept) > MOST: print('many')",
    "something else goes": "kept[key] = x\nif len(kept) > MOST: others.pop()",
    "something else is asked": "kept[key] = x\nif len(others) > MOST: kept.clear()",
    "it is asked whether there are any": "kept[key] = x\nif kept: kept.get(key)",
    "only one of two ways in": "kept[key] = x\nif len(kept) > MOST: kept.clear()\nother_way(x)",
    "nobody can read the number": "kept[key] = x\nif len(kept) > int('9'): kept.clear()",
}
PROGRAM = """
import heapq
kept, others, MOST = [], [], 100
class Of:
    most = 40
def trim():
    if len(kept) > 60:
        kept.pop(0)
def put(cache, key, x):
    cache[key] = x
    if len(cache) > MOST:
        cache.popitem()
def add(key, x, given=30):
{added}
{more}
"""


def made(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.chdir(folder)
    file = folder / "bounded_program.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    spec.loader.exec_module(module)
    return module


def limit(folder: Path, added: str, monkeypatch: pytest.MonkeyPatch) -> Limit | None:
    more = "def other_way(x):\n    kept.append(x)\n" if "other_way" in added else ""
    module = made(folder, PROGRAM.format(added=textwrap.indent(added, "    "), more=more), monkeypatch)
    name = Name("variable", "", "kept", "", module.__file__, None, function="<module>")
    return code_bounds.of(module.kept, name, [])


@pytest.mark.parametrize("what", BOUNDED)
def test_bound_that_the_adding_function_keeps_to(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added, text, most = BOUNDED[what]
    assert limit(tmp_path, added, monkeypatch) == Limit(text, most)


@pytest.mark.parametrize("what", UNBOUNDED)
def test_what_is_no_bound(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limit(tmp_path, UNBOUNDED[what], monkeypatch) is None


OBJECTS = """
class Cache:
    def __init__(self):
        self.most, self.__kept = 50, {}
    def put(self, key, value):
        self.__kept[key] = value
        if len(self.__kept) > self.most:
            self.__kept.popitem()
class Other:
    def __init__(self):
        self.kept = {}
    def put(self, key, value):
        self.kept[key] = value
class Oldest(dict):
    def __setitem__(self, key, value):
        if len(self) >= 70:
            del self[next(iter(self))]
        super().__setitem__(key, value)
def local(key, value):
    kept = {}
    kept[key] = value
    if len(kept) > 9:
        kept.clear()
cache, other, oldest = Cache(), Other(), Oldest()
cache.put(1, 1)
"""


def test_bound_of_an_objects_collection_is_read_from_its_class(tmp_path: Path, monkeypatch) -> None:
    module = made(tmp_path, OBJECTS, monkeypatch)
    name = Name("attribute", "", "self.kept", "Cache", module.__file__, None)
    kept = module.cache._Cache__kept
    assert code_bounds.of(kept, name, [module.cache]) == Limit("len(self.__kept) > self.most", 50)
    assert code_bounds.of(module.other.kept, name, [module.other]) is None
    assert code_bounds.of(module.oldest, name._replace(kind="variable", name="oldest"), []) == Limit(
        "len(self) >= 70", 70
    )
