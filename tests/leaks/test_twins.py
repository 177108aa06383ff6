"""Each known pattern of a leak is found at its line by the tenth epoch; what is healthy stays silent."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_name("twins.py")
BENIGN = Path(__file__).with_name("benign_programs.py")


def _functions(source: Path = SOURCE) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(source.read_text()).body if isinstance(node, ast.FunctionDef)]


def _patterns() -> dict[str, str]:
    """The pattern of each twin's leak."""
    found = {}
    for function in _functions():
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "twin":
                found[function.name] = decorator.args[0].value
    return found


def _benign() -> list[str]:
    """The names of the benign programs."""
    decorated = [function for function in _functions(BENIGN) if function.decorator_list]
    return [function.name for function in decorated if getattr(function.decorator_list[0], "id", "") == "benign"]


def _leaking_lines(twin: str) -> set[int]:
    """The lines marked as leaking in a twin, and in the classes above it that it uses."""
    source = SOURCE.read_text()
    function = next(function for function in _functions() if function.name == twin)
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name in used]
    marked = {number for number, line in enumerate(source.splitlines(), 1) if line.endswith("# leaks")}
    return {line for node in (function, *classes) for line in marked if node.lineno <= line <= node.end_lineno}


PATTERNS = _patterns()
KINDS = {
    "reference_cycle": "cycle",
    "logits_concatenated": "growing",
    "replaced_by_a_larger_one": "growing",
    "memory_outside": "outside",
    "graph_for_each_shape": "growing",
}
# The least that a twin leaks with each of a million steps, 4 KiB, fills it; without an optimizer, of a million batches.
MEMORY = "3GiB"


@pytest.fixture(scope="module")
def results(run_program) -> dict[str, Any]:
    twins = [f"{health}:{name}" for name in PATTERNS for health in ("leaking", "healthy")]
    return run_program("run_twins.py", *twins, *(f"benign:{name}" for name in _benign()), memory=MEMORY)


@pytest.mark.parametrize("name", PATTERNS)
def test_leak_is_found_at_its_line_with_its_pattern(name, results):
    result = results[f"leaking:{name}"]
    assert result["verdicts"], result["text"]
    first = result["verdicts"][0]
    assert first["kind"] == KINDS.get(name, "leak"), result["text"]
    assert first["pattern"] == PATTERNS[name], result["text"]
    assert first["material"], result["text"]
    lines = _leaking_lines(name)
    assert first["line"] in lines if lines else first["line"] is None, result["text"]


@pytest.mark.parametrize("name", PATTERNS)
def test_healthy_twin_stays_silent(name, results):
    assert results[f"healthy:{name}"]["verdicts"] == [], results[f"healthy:{name}"]["text"]


@pytest.mark.parametrize("name", _benign())
def test_what_only_looks_like_a_leak_stays_silent(name, results):
    assert results[f"benign:{name}"]["verdicts"] == [], results[f"benign:{name}"]["text"]


@pytest.mark.parametrize(
    ("name", "found_by"),
    [
        ("benign:gradients_accumulated", "data_loader"),
        ("benign:two_optimizers_in_turn", "data_loader"),
        ("benign:loader_made_anew", "data_loader"),
        ("benign:first_batch_again_and_again", "steps"),
        ("healthy:one_epoch_of_many_steps", "steps"),
        ("healthy:inference_without_an_optimizer", "called"),
    ],
)
def test_epochs_are_found(name, found_by, results):
    assert results[name]["epochs"]["found_by"] == found_by


@pytest.mark.parametrize("name", ["gradients_accumulated", "two_optimizers_in_turn", "loader_made_anew"])
def test_the_tenth_epoch_is_still_open(name, results):
    # It ends when the loader starts over, and it does not any more.
    assert results[f"benign:{name}"]["epochs"]["ended"] == 9


def test_steps_of_two_optimizers_are_counted_once(results):
    assert results["benign:two_optimizers_in_turn"]["epochs"]["steps"] == 40


def test_rate_is_of_the_programs_epochs_however_they_were_judged(results):
    verdict = results["leaking:outputs_listed"]["verdicts"][0]
    # Four steps, each a copy of 128 x 64 floats.
    assert verdict["bytes_per_epoch"] == pytest.approx(4 * 128 * 64 * 4, rel=0.01)
    assert verdict["bytes_per_step"] == pytest.approx(128 * 64 * 4, rel=0.01)


def test_what_has_been_let_go_since_is_said(results):
    # The report comes after the program's variables have gone.
    result = results["leaking:outputs_listed"]
    assert result["verdicts"][0]["bytes_now"] == 0
    assert "let go since" in result["text"]


def test_holder_is_named_with_its_line(results):
    holder = results["leaking:outputs_listed"]["verdicts"][0]["held_by"][0]
    assert holder["what"] == "list 'outputs'"
    assert SOURCE.read_text().splitlines()[holder["line"] - 1].strip() == "outputs = []"


def test_text_says_what_to_do_within_a_hundred_columns(results):
    text = results["leaking:losses_listed"]["text"]
    assert "loss.item()" in text
    assert "list 'losses'" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "\x1b" not in text
