"""bench left_over: programs with phases, and what their last phase gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._planning.replay import replays
from frugal_alloc._planning.replay.history import ALLOCATE, EVENT

from bench import __main__ as bench
from bench import phased
from bench.comparison.policy import Policy
from bench.generators import phases
from bench.generators.recorder import GIB, MIB

SMALL = phases.Parameters(memory=8 * GIB, phases=2, tensors=50, last_size=16 * MIB)
SEEDS = range(20)


def sizes_of(history: Any) -> list[int]:
    return [event[2] for event in EVENT.iter_unpack(history.events) if event[0] == ALLOCATE]


class TestPrograms:
    def test_a_seed_makes_the_same_program_and_another_seed_another(self) -> None:
        assert phased.program_of(3) == phased.program_of(3)
        assert phased.program_of(3).body.events != phased.program_of(4).body.events

    def test_seeds_are_of_gpus_that_people_have(self) -> None:
        drawn = [phases.random_parameters(seed) for seed in range(200)]
        assert {one.memory for one in drawn} == set(phases.GPUS)
        assert {one.streams for one in drawn} == {1, 2, 3, 4}
        assert all(one.last_size * phases.LAST_PART <= one.memory for one in drawn)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_live_memory_stays_below_what_the_gpu_has(self, seed: int) -> None:
        made = phased.program_of(seed)
        assert made.body.peak_live_bytes < 0.97 * made.parameters.memory
        assert made.body.event_count <= 60_000


class TestEnding:
    def test_last_phase_is_more_than_the_gpu_has(self) -> None:
        made = phased.of_parameters("small", SMALL)
        last = phased.ending(made)
        assert last.history.events.startswith(made.body.events)
        assert last.begins_at == made.body.event_count
        added = sizes_of(last.history)[made.body.allocation_count :]
        assert set(added) == {SMALL.last_size}
        assert sum(added) > SMALL.memory

    def test_what_is_not_in_tensors_is_counted_where_the_last_phase_begins(self) -> None:
        made = phased.of_parameters("small", SMALL)
        first, second = sizes_of(made.body)[:2]
        assert phased.ending(made, 0).free_bytes == SMALL.memory
        assert phased.ending(made, 1).free_bytes == SMALL.memory - first
        assert phased.ending(made, 2).free_bytes == SMALL.memory - first - second


class MadeUp(phased.Plays):
    """Allocators that run out at given events of the program, or else get so many of the last phase's tensors."""

    def __init__(self, fails: dict[str, int], got: dict[str, int]) -> None:
        self.replayer = replays.Replayer()
        self.played: list[tuple[str, int]] = []
        self._fails = fails
        self._got = got

    def _failed_at(self, who: str, last: phased.Ending) -> int:
        self.played.append((who, last.begins_at))
        fails = self._fails.get(who, last.begins_at)
        return fails if fails < last.begins_at else last.begins_at + self._got[who]

    def _ours(self, program: phased.Program, last: phased.Ending) -> int:
        return self._failed_at("ours", last)

    def _rival(self, program: phased.Program, last: phased.Ending, allocator: str) -> int:
        return self._failed_at(allocator, last)


class TestCutting:
    GOT = {"ours": 90, "native": 100, "expandable": 80}  # noqa: RUF012

    def test_a_program_that_all_can_play_is_not_cut(self) -> None:
        found = MadeUp({}, self.GOT).measure(phased.of_parameters("small", SMALL))
        assert found.cut_at is None
        assert (found.ours, found.native) == (90 * SMALL.last_size, 100 * SMALL.last_size)
        assert found.ratio == 0.9

    def test_it_counts_from_the_earliest_event_at_which_one_runs_out(self) -> None:
        made = phased.of_parameters("small", SMALL)
        player = MadeUp({"ours": 60, "native": 40}, self.GOT)
        found = player.measure(made)
        assert found.cut_at == 40
        assert found.free == phased.ending(made, 40).free_bytes
        assert player.played == [(who, at) for at in (made.body.event_count, 40) for who in phased.ALLOCATORS]


class TestPlaying:
    def test_the_same_is_found_each_time_and_rivals_are_kept(
        self, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = phased.of_parameters("small", SMALL)
        player = phased.Plays(Policy(program), {}, tmp_path)
        first = player.measure(made)
        assert 0 < first.ours <= first.free < SMALL.memory
        assert 0 < first.native <= first.free
        monkeypatch.setattr(player.replayer, "measure", None)
        assert player.measure(made) == first


class TestCommandLine:
    @pytest.fixture(autouse=True)
    def kept(self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(phased, "KEPT", tmp_path_factory.getbasetemp() / "left_over")

    def test_figures_are_printed_and_written(
        self, program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "left.json"
        given = ["--seeds", "2-3", "--json", str(path), "--csv", str(tmp_path)]
        assert bench.main(["--program", str(program), "left_over", *given]) == 0
        captured = capsys.readouterr()
        assert "\n| 2 |" in captured.out
        assert "\n2 programs; ours / " in captured.out
        assert captured.err == ""
        written = json.loads(path.read_text())
        assert written["summary"]["programs"] == 2
        assert [one["name"] for one in written["programs"]] == ["2", "3"]
        assert len((tmp_path / "left_over.csv").read_text().splitlines()) == 3
