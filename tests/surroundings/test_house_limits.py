"""The limits of lint that are ours: each is told with its place where it is exceeded, and not before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import house_limits  # noqa: E402

PUBLIC = "bindings/include/frugal_alloc/b"


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Returns what is told of files with these texts, and asks for the exit status that belongs to it."""
    monkeypatch.chdir(tmp_path)

    def check(texts: dict[str, str]) -> str:
        for name, text in texts.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        status = house_limits.main(*texts)
        out = capsys.readouterr().out
        assert status == bool(out)
        return out

    return check


@pytest.mark.parametrize("name, most", [("a.h", 300), ("a.cc", 450), ("a.py", 450), ("script", 450)])
def test_lines_of_a_file(told, name: str, most: int) -> None:
    assert told({name: "\n" * most}) == ""
    assert told({name: "\n" * (most + 1)}) == f"{name}: {most + 1} lines, limit {most}\n"


def test_lines_of_a_python_function(told) -> None:
    function = "\ndef f():\n" + "    pass\n" * 49
    assert told({"script": function}) == ""
    assert told({"script": function + "    pass\n"}) == "script:2: f has 51 lines, limit 50\n"


def test_modules_of_tests_with_one_name(told) -> None:
    assert told({"tests/a/conftest.py": "", "tests/b/conftest.py": "", "tests/a/test_x.py": ""}) == ""
    assert "tests/a/test_x.py, tests/b/test_x.py" in told({"tests/a/test_x.py": "", "tests/b/test_x.py": ""})


@pytest.mark.parametrize(
    "sources, circles",
    [
        ({"allocator/a.h": "vector", "allocator/a.cc": "allocator/a.h allocator/b.h", "allocator/b.h": ""}, []),
        # A folder within another is one of its own.
        ({"allocator/a.h": "allocator/port/b.h", "allocator/port/b.h": ""}, []),
        ({"cuda/a.h": "cuda/b.h", "cuda/b.h": "cuda/a.h"}, ["files cuda/a cuda/b"]),
        # A source counts as its header.
        ({"cuda/a.h": "", "cuda/a.cc": "cuda/a.h cuda/b.h", "cuda/b.h": "cuda/a.h"}, ["files cuda/a cuda/b"]),
        (
            {
                "cuda/a.h": "cuda/below/b.h",
                "cuda/below/b.h": "",
                "cuda/d.h": "",
                "cuda/below/c.cc": "cuda/d.h",
            },
            ["folders cuda cuda/below"],
        ),
        # A public header is found by the name that users write.
        (
            {"bindings/c_api/a.h": "frugal_alloc/b.h", f"{PUBLIC}.h": "bindings/c_api/a.h"},
            [f"files bindings/c_api/a {PUBLIC}", "folders bindings/c_api bindings/include/frugal_alloc"],
        ),
    ],
)
def test_circles_of_includes(told, sources: dict[str, str], circles: list[str]) -> None:
    """`sources`: by file, what it includes. A circle may begin at any of its members, and ends where it began."""
    found = told({name: "".join(f'#include "{one}"\n' for one in text.split()) for name, text in sources.items()})
    ways = [line.partition(" include each other: ")[::2] for line in found.splitlines()]
    assert [" ".join([kind, *sorted(set(way.split(" -> ")))]) for kind, way in ways] == circles
