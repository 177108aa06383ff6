"""The lint rule for C++ includes sees circles of files and of folders, and only these."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import cpp_includes  # noqa: E402

PUBLIC = "bindings/include/frugal_alloc/b"


@pytest.mark.parametrize(
    "sources, told",
    [
        ({"allocator/a.h": "vector", "allocator/a.cc": "allocator/a.h allocator/b.h", "allocator/b.h": ""}, []),
        # A folder within another is one of its own.
        ({"allocator/a.h": "allocator/port/b.h", "allocator/port/b.h": ""}, []),
        ({"cuda/a.h": "cuda/b.h", "cuda/b.h": "cuda/a.h"}, ["files: cuda/a -> cuda/b"]),
        # A source counts as its header.
        ({"cuda/a.h": "", "cuda/a.cc": "cuda/a.h cuda/b.h", "cuda/b.h": "cuda/a.h"}, ["files: cuda/a -> cuda/b"]),
        (
            {"cuda/a.h": "simulated_gpu/machine/b.h", "simulated_gpu/machine/b.h": ""}
            | {"simulated_gpu/machine/c.cc": "cuda/d.h", "cuda/d.h": ""},
            ["folders: cuda -> simulated_gpu"],
        ),
        # A public header is found by the name that users write.
        (
            {"bindings/c_api/a.h": "frugal_alloc/b.h", f"{PUBLIC}.h": "bindings/c_api/a.h"},
            [f"files: bindings/c_api/a -> {PUBLIC}", "folders: bindings/c_api -> bindings/include/frugal_alloc"],
        ),
    ],
)
def test_circles(sources: dict[str, str], told: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    """`sources`: by file, what it includes."""
    monkeypatch.chdir(tmp_path)
    for name, included in sources.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("".join(f'#include "{other}"\n' for other in included.split()))
    assert cpp_includes.main(*sources) == (1 if told else 0)
    lines = capsys.readouterr().out.splitlines()
    assert [in_one_order(line) for line in lines] == [in_one_order(f"{way} -> {first(way)}") for way in told]


def first(way: str) -> str:
    return way.partition(": ")[2].partition(" -> ")[0]


def in_one_order(line: str) -> tuple[str, ...]:
    """Kind and members: a circle may begin at any of them, and ends where it began."""
    kind, _, way = line.partition(": ")
    begin, *others, end = way.split(" -> ")
    assert begin == end
    return (kind.split()[0], *sorted([begin, *others]))
