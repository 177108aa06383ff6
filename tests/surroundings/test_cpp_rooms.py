"""The lint rule for C++ includes sees circles of files and of folders, and only these."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import cpp_rooms  # noqa: E402


def circles(root: Path, sources: dict[str, str]) -> list[str]:
    """`sources`: by file, what it includes."""
    for name, included in sources.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("".join(f'#include "{other}"\n' for other in included.split()))
    return cpp_rooms.circles(root)


def test_files_in_one_order_are_no_circle(tmp_path: Path) -> None:
    assert not circles(
        tmp_path,
        {
            "allocator/a.h": "vector",
            "allocator/a.cc": "allocator/a.h allocator/b.h",
            "allocator/b.h": "",
            "bindings/torch/c.cc": "allocator/a.h",
        },
    )


def test_headers_that_include_each_other_are_told(tmp_path: Path) -> None:
    found = circles(tmp_path, {"cuda/a.h": "cuda/b.h", "cuda/b.h": "cuda/a.h"})
    assert found == ["files include each other: cuda/a -> cuda/b -> cuda/a"]


def test_a_source_counts_as_its_header(tmp_path: Path) -> None:
    found = circles(tmp_path, {"cuda/a.h": "", "cuda/a.cc": "cuda/a.h cuda/b.h", "cuda/b.h": "cuda/a.h"})
    assert found == ["files include each other: cuda/a -> cuda/b -> cuda/a"]


def test_folders_that_include_each_other_are_told_though_no_files_do(tmp_path: Path) -> None:
    found = circles(
        tmp_path,
        {"allocator/a.h": "cuda/simulated/b.h", "cuda/simulated/b.h": "", "cuda/simulated/c.cc": "allocator/d.h"}
        | {"allocator/d.h": ""},
    )
    assert found == ["folders include each other: allocator -> cuda/simulated -> allocator"]


def test_a_folder_within_another_is_one_of_its_own(tmp_path: Path) -> None:
    assert not circles(tmp_path, {"allocator/a.h": "allocator/port/b.h", "allocator/port/b.h": ""})


def test_a_public_header_is_found_by_the_name_that_users_write(tmp_path: Path) -> None:
    found = circles(
        tmp_path, {"bindings/c_api/a.h": "frugal_alloc/b.h", "bindings/include/frugal_alloc/b.h": "bindings/c_api/a.h"}
    )
    assert found == [
        "files include each other: bindings/c_api/a -> bindings/include/frugal_alloc/b -> bindings/c_api/a",
        "folders include each other: bindings/c_api -> bindings/include/frugal_alloc -> bindings/c_api",
    ]


def test_our_own_files_have_none() -> None:
    assert cpp_rooms.circles(ROOT) == []
