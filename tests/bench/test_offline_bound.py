"""bench/offline_bound.py: the least memory in which a history could complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from frugal_alloc._replay import history_files
from frugal_alloc._replay.history import ALLOCATE, FREE, History

from bench import offline_bound
from bench.lifetimes import PAGE_BYTES
from bench.offline_bound import lower_bound_bytes

MIB = 1 << 20


def history(folder: Path, *events: list[int]) -> History:
    """Rows as bench/generators/README.md describes them."""
    path = folder / "events.json"
    path.write_text(json.dumps({"frugal_alloc_history": 1, "events": events}))
    return history_files.read(path)


def allocate(number: int, size: int, stream: int = 0) -> list[int]:
    return [ALLOCATE, number, size, stream]


def free(number: int, late_stream: int | None = None, ready: int | None = None) -> list[int]:
    return [FREE, number] if ready is None else [FREE, number, late_stream, ready]


def test_one_byte_takes_a_page(tmp_path: Path) -> None:
    assert lower_bound_bytes(history(tmp_path, allocate(0, 1))) == PAGE_BYTES


def test_blocks_that_live_together_add_up_and_others_do_not(tmp_path: Path) -> None:
    together = history(tmp_path, allocate(0, 3 * MIB), allocate(1, 3 * MIB), free(0), free(1))
    assert lower_bound_bytes(together) == 6 * MIB
    apart = history(tmp_path, allocate(0, 3 * MIB), free(0), allocate(1, 3 * MIB), free(1))
    assert lower_bound_bytes(apart) == 4 * MIB


def test_every_block_has_its_grains_of_512_bytes_to_itself(tmp_path: Path) -> None:
    count = PAGE_BYTES // 512
    full = history(tmp_path, *(allocate(number, 1) for number in range(count)))
    assert lower_bound_bytes(full) == PAGE_BYTES
    one_more = history(tmp_path, *(allocate(number, 1) for number in range(count + 1)))
    assert lower_bound_bytes(one_more) == 2 * PAGE_BYTES


def test_memory_that_a_stream_still_uses_is_gone_only_for_who_does_not_wait(tmp_path: Path) -> None:
    late = history(
        tmp_path, allocate(0, 4 * MIB), free(0, 1, 3), allocate(1, 4 * MIB), free(1), allocate(2, 4 * MIB, 1)
    )
    assert lower_bound_bytes(late) == 4 * MIB
    assert lower_bound_bytes(late, waits=False) == 8 * MIB == late.peak_live_bytes


def test_what_has_arenas_of_its_own_is_rounded_up_for_itself(tmp_path: Path) -> None:
    size = 5 * MIB // 4
    of_streams = history(tmp_path, allocate(0, size), allocate(1, size, 1))
    assert lower_bound_bytes(of_streams) == lower_bound_bytes(of_streams, arenas=True) == 4 * MIB
    small_and_large = history(tmp_path, allocate(0, MIB), allocate(1, MIB + 512))
    assert lower_bound_bytes(small_and_large) == lower_bound_bytes(small_and_large, arenas=True) == 4 * MIB
    three = history(tmp_path, allocate(0, size), allocate(1, size, 1), allocate(2, size, 2))
    assert lower_bound_bytes(three) == 4 * MIB
    assert lower_bound_bytes(three, arenas=True) == 6 * MIB


def test_bound_is_never_below_live_and_never_a_page_above_the_grains_of_one_time() -> None:
    """Of a real recording without late frees."""
    real = history_files.read(history_files.find("mosaic"))
    bound = lower_bound_bytes(real)
    assert real.peak_live_bytes <= bound <= real.peak_live_bytes + 512 * real.allocation_count + PAGE_BYTES
    assert bound <= lower_bound_bytes(real, arenas=True)


def test_the_table_names_each_history_with_its_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert offline_bound.main(["mosaic"]) == 0
    heads, row = capsys.readouterr().out.splitlines()
    assert heads.split()[0] == "history"
    assert row.split()[0].startswith("mosaic")
    assert len(row.split()) == 5
    assert offline_bound.main(["mosaic", "--place"]) == 0
    assert len(capsys.readouterr().out.splitlines()[1].split()) == 6


def test_a_history_that_does_not_exist_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert offline_bound.main(["none_of_that_name"]) == 2
    assert "none_of_that_name" in capsys.readouterr().err
