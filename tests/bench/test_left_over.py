"""//bench:left_over: programs with phases, what their last phase gets, and the search for the worst of them."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._replay import replays
from frugal_alloc._replay.history import ALLOCATE, EVENT

from bench import left_over
from bench.comparison.policy import Policy
from bench.generators import BadParameter, phases
from bench.generators.recorder import GIB, MIB
from bench.phased import plays, programs, search
from bench.phased.plays import Left

SMALL = phases.Parameters(memory=8 * GIB, phases=2, tensors=50, last_size=16 * MIB)
SEEDS = range(20)


def sizes_of(history: Any) -> list[int]:
    return [event[2] for event in EVENT.iter_unpack(history.events) if event[0] == ALLOCATE]


class TestPrograms:
    def test_a_seed_makes_the_same_program_and_another_seed_another(self) -> None:
        assert programs.of_seed(3) == programs.of_seed(3)
        assert programs.of_seed(3).body.events != programs.of_seed(4).body.events

    def test_seeds_are_of_gpus_that_people_have(self) -> None:
        drawn = [phases.random_parameters(seed) for seed in range(200)]
        assert {one.memory for one in drawn} == set(phases.GPUS)
        assert {one.streams for one in drawn} == {1, 2, 3, 4}
        assert all(one.last_size * phases.LAST_PART <= one.memory for one in drawn)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_live_memory_stays_below_what_the_gpu_has(self, seed: int) -> None:
        made = programs.of_seed(seed)
        assert made.body.peak_live_bytes < 0.97 * made.parameters.memory
        assert made.body.event_count <= 60_000

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"last_size": GIB}, "last_size must be from a 4000th to a 400th of memory"),
            ({"smallest": 2 * GIB}, "the smallest size must not be above the largest"),
            ({"order": 5}, "order must be from 1 to 4, not 5"),
            ({"streams": 33}, "streams must be from 1 to 32, not 33"),
        ],
    )
    def test_bad_parameters_are_refused(self, changes: dict[str, Any], reason: str) -> None:
        with pytest.raises(BadParameter, match=reason):
            programs.of_parameters("bad", dataclasses.replace(SMALL, **changes))


class TestEnding:
    def test_last_phase_is_more_than_the_gpu_has(self) -> None:
        made = programs.of_parameters("small", SMALL)
        last = programs.ending(made)
        assert last.history.events.startswith(made.body.events)
        assert last.begins_at == made.body.event_count
        added = sizes_of(last.history)[made.body.allocation_count :]
        assert set(added) == {SMALL.last_size}
        assert sum(added) > SMALL.memory

    def test_what_is_not_in_tensors_is_counted_where_the_last_phase_begins(self) -> None:
        made = programs.of_parameters("small", SMALL)
        first, second = sizes_of(made.body)[:2]
        assert programs.ending(made, 0).free_bytes == SMALL.memory
        assert programs.ending(made, 1).free_bytes == SMALL.memory - first
        assert programs.ending(made, 2).free_bytes == SMALL.memory - first - second


class MadeUp(plays.Plays):
    """Allocators that run out at given events of the program, or else get so many of the last phase's tensors."""

    def __init__(self, fails: dict[str, int], got: dict[str, int]) -> None:
        self.replayer = replays.Replayer()
        self.played: list[tuple[str, int]] = []
        self._fails = fails
        self._got = got

    def _failed_at(self, who: str, last: programs.Ending) -> int:
        self.played.append((who, last.begins_at))
        fails = self._fails.get(who, last.begins_at)
        return fails if fails < last.begins_at else last.begins_at + self._got[who]

    def _ours(self, program: programs.Program, last: programs.Ending) -> int:
        return self._failed_at("ours", last)

    def _rival(self, program: programs.Program, last: programs.Ending, allocator: str) -> int:
        return self._failed_at(allocator, last)


class TestCutting:
    GOT = {"ours": 90, "native": 100, "expandable": 80}  # noqa: RUF012

    def test_a_program_that_all_can_play_is_not_cut(self) -> None:
        found = MadeUp({}, self.GOT).measure(programs.of_parameters("small", SMALL))
        assert found.cut_at is None
        assert (found.ours, found.native) == (90 * SMALL.last_size, 100 * SMALL.last_size)
        assert found.ratio == 0.9

    def test_it_counts_from_the_earliest_event_at_which_one_runs_out(self) -> None:
        made = programs.of_parameters("small", SMALL)
        player = MadeUp({"ours": 60, "native": 40}, self.GOT)
        found = player.measure(made)
        assert found.cut_at == 40
        assert found.free == programs.ending(made, 40).free_bytes
        assert player.played == [(who, at) for at in (made.body.event_count, 40) for who in plays.ALLOCATORS]


class TestPlaying:
    def test_the_same_is_found_each_time_and_rivals_are_kept(
        self, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = programs.of_parameters("small", SMALL)
        player = plays.Plays(Policy(program), {}, tmp_path)
        first = player.measure(made)
        assert 0 < first.ours <= first.free < SMALL.memory
        assert 0 < first.native <= first.free
        monkeypatch.setattr(player.replayer, "measure", None)
        assert player.measure(made) == first


def left(ratio: float, parameters: phases.Parameters = SMALL, others: int = 4 * GIB) -> Left:
    sizes = {"ours": round(ratio * others), "native": others, "expandable": 0, "free": 6 * GIB}
    return Left("x", dataclasses.asdict(parameters), **sizes, cut_at=None)


class TestSearch:
    @pytest.fixture(autouse=True)
    def made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Programs that are not made, since no allocator plays them here."""
        body = programs.of_parameters("small", SMALL).body
        monkeypatch.setattr(
            programs, "of_parameters", lambda name, parameters: programs.Program(name, parameters, body)
        )

    @staticmethod
    def climb(rounds: int, judge: Callable[[phases.Parameters], float], seed: int = 1) -> search.Search:
        def measure(made: list[programs.Program]) -> list[Left]:
            return [left(judge(one.parameters), one.parameters, one.parameters.memory) for one in made]

        found = search.Search(seed, measure)
        for _ in range(rounds):
            found.round()
        return found

    def test_it_climbs_to_what_is_worse(self) -> None:
        def judge(parameters: phases.Parameters) -> float:
            return 1 - parameters.survivors

        assert self.climb(20, judge).worst.ratio < min(self.climb(1, judge).worst.ratio, 0.1)

    def test_the_same_seed_finds_the_same(self) -> None:
        def judge(parameters: phases.Parameters) -> float:
            return parameters.first_fill

        assert self.climb(5, judge).worst == self.climb(5, judge).worst

    def test_what_it_tries_is_within_limits(self) -> None:
        chance, parameters = random.Random(5), phases.Parameters()
        for _ in range(300):
            parameters = search.mutated(chance, parameters)
            assert parameters.memory in phases.GPUS
            assert all(low <= getattr(parameters, name) for name, (low, _) in phases.LIMITS.items())
            assert parameters.smallest <= parameters.largest
            assert parameters.last_size * phases.LAST_PART <= parameters.memory


class TestCommandLine:
    @pytest.fixture(autouse=True)
    def kept(self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plays, "KEPT", tmp_path_factory.getbasetemp() / "left_over")

    def test_figures_are_printed_and_written(
        self, program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "left.json"
        assert left_over.main(["--program", str(program), "--seeds", "2-3", "--json", str(path)]) == 0
        captured = capsys.readouterr()
        assert "\n| 2 |" in captured.out
        assert "\n2 programs; ours / " in captured.out
        assert captured.err == ""
        written = json.loads(path.read_text())
        assert written["summary"]["programs"] == 2
        assert [one["name"] for one in written["programs"]] == ["2", "3"]

    def test_what_a_search_finds_can_be_given_again(self, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
        one = left_over.given(left(0.5, dataclasses.replace(SMALL, memory=24 * GIB)))
        assert left_over.main(["--program", str(program), "--parameters", one]) == 0
        assert "\n| given | 24 | 16.0 |" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["--seeds", "5-3"], "'5-3' is not from 1 to 100000 seeds"),
            (["--seeds", "many"], "a seed is a number from 0 on, not 'many'"),
            (["--only", "-1"], "a seed is a number from 0 on, not '-1'"),
            (["--only", "1", "--seeds", "1-2"], "not allowed with argument"),
            (["--search", "0"], "'0' is not a number of minutes above zero"),
            (["--parameters", "size=3"], "--parameters: no parameter 'size'; there are memory, "),
            (["--parameters", "streams=99"], "--parameters: streams must be from 1 to 32, not 99"),
            (["--option", "round=1"], "--option: no option is named 'round'; there are "),
            (["--json", "/nonexistent/left.json"], "/nonexistent is not a folder"),
        ],
    )
    def test_bad_arguments_get_one_line_and_status_2(
        self, program: Path, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            sys.exit(left_over.main(["--program", str(program), *arguments]))
        captured = capsys.readouterr()
        assert (ended.value.code, captured.out) == (2, "")
        assert captured.err.startswith("left_over: ")
        assert reason in captured.err
        assert captured.err.count("\n") == 1
