"""What fit says of whole programs: it adds up, and it is what their allocator has counted."""

from __future__ import annotations

import sys
from typing import Any

import pytest

NAMED = (
    "plain",
    "convolutions",
    "checkpointed",
    "half_precision",
    "attention",
    "with_evaluation",
    "accumulated",
    "two_optimizers",
    "frozen",
    "by_hand",
    "second_stream",
    "inference",
)
MIB = 1 << 20
# Four layers of 512 x 512 numbers and 512 more, of 4 bytes.
PARAMETERS = 4 * (512 * 512 + 512) * 4


def live(components: dict[str, int]) -> int:
    return sum(size for name, size in components.items() if name not in ("waste", "context"))


RUNS = [(name, "native") for name in NAMED]
RUNS += [(name, "frugal") for name in ("plain", "half_precision", "second_stream", "inference")]
RUNS += [("second_stream", "expandable")]


@pytest.mark.parametrize(("name", "allocator"), RUNS)
def test_components_add_up_to_what_the_allocator_has_counted(name: str, allocator: str, fit_program: Any) -> None:
    outcome = fit_program(name, *(() if allocator == "native" else ("--allocator", allocator)))
    assert outcome.status == 0, outcome
    (rank,) = outcome.verdict["ranks"]
    for moment in (rank["peak"], *rank["phases"], *rank["series"]):
        assert sum(moment["components"].values()) == moment["used_bytes"]
        assert all(size > 0 for size in moment["components"].values()), moment
    held = [moment["components"] for moment in (*rank["phases"], *rank["series"])]
    assert max(map(live, held)) == rank["requested_peak_bytes"]
    assert max(live(parts) + parts.get("waste", 0) for parts in held) == rank["reserved_peak_bytes"]
    assert {parts["context"] for parts in held} == {512 * MIB}
    at_peak = rank["peak"]["components"]
    assert sum(line["bytes"] for line in rank["lines"]) == live(at_peak)
    assert at_peak.get("unnamed", 0) <= 0.05 * live(at_peak), at_peak


def phases(outcome: Any) -> dict[str, dict[str, int]]:
    (rank,) = outcome.verdict["ranks"]
    return {moment["phase"]: moment["components"] for moment in rank["phases"]}


def test_a_training_has_its_parameters_gradients_and_states(fit_program: Any) -> None:
    at = phases(fit_program("plain"))["optimizer step"]
    assert at["parameters"] == at["gradients"] == PARAMETERS
    # Adam's two, and a step counter for each parameter, which is on the host.
    assert at["optimizer state"] == 2 * PARAMETERS


def test_a_batch_is_the_inputs(fit_program: Any) -> None:
    assert phases(fit_program("plain"))["forward"]["inputs"] == 256 * 512 * 4


def test_a_forward_pass_without_gradients_is_evaluation(fit_program: Any) -> None:
    found = phases(fit_program("with_evaluation"))
    assert found["evaluation"]["activations"] >= 2 * 1024 * 512 * 4
    assert "gradients" not in found["evaluation"]


def test_frozen_parameters_are_parameters_without_gradients(fit_program: Any) -> None:
    at = phases(fit_program("frozen"))["optimizer step"]
    adapter = (512 * 8 + 8) * 4
    assert at["parameters"] == PARAMETERS + adapter
    assert at["gradients"] == adapter


def test_the_peaks_lines_are_the_programs_own(fit_program: Any) -> None:
    (rank,) = fit_program("plain").verdict["ranks"]
    files = {line["where"]["file"].rpartition("/")[2] for line in rank["lines"] if line["where"]}
    assert files == {"fitted_programs.py"}
    assert rank["peak"]["where"]["function"] == "plain"


def test_two_runs_say_the_same(fit_program: Any) -> None:
    ways = ("", sys.executable)
    first, second = (fit_program("second_stream", python=python).verdict for python in ways)
    assert first["ranks"] == second["ranks"]
