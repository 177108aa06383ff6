"""``frugal-alloc fit``: verdicts, exit statuses, and what is wrong with a command line or a program, in one line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import fork_server
import pytest
import torch
from frugal_alloc._planning.fit import kernels
from simulated_gpu import gpu_models

MIB = 1 << 20
PROGRAMS = Path(__file__).with_name("fitted_programs.py")
# Runs a command, and says how much of the host's memory that or a process below it has held at most, in KiB.
MEASURED = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


def test_a_program_that_fits_is_ended_after_the_steps_asked_for(fit_program: Any) -> None:
    outcome = fit_program("plain", "--steps", "3")
    verdict = outcome.verdict
    assert (outcome.status, verdict["fits"], verdict["ended"], verdict["steps"]) == (0, True, "steps", 3)


def test_a_program_that_does_not_fit_is_told_how_much_it_needs(fit_program: Any) -> None:
    tight = fit_program("plain", "--memory", "540MiB", "--allocator", "frugal")
    verdict = tight.verdict
    assert (tight.status, verdict["fits"], verdict["ended"]) == (1, False, "out of memory")
    assert "torch.OutOfMemoryError" in tight.err
    needed = verdict["needs_bytes"]
    assert fit_program("plain", "--memory", str(needed + 2 * MIB)).status == 0
    assert fit_program("plain", "--memory", str(int(needed * 0.97))).status == 1
    assert verdict["changes"][0]["bytes"] > 0
    # Of the whole run, and not what the first request that failed lacked.
    assert not any("must go" in change["text"] for change in verdict["changes"])


def test_a_single_request_that_is_larger_than_the_gpu_is_told_how_much_it_needs(fit_program: Any) -> None:
    verdict = fit_program("one_request").verdict
    assert verdict["fits"] is False
    assert 20 << 30 < verdict["needs_bytes"] < 21 << 30


def test_a_model_without_steps_is_ended_after_the_calls_asked_for(fit_program: Any) -> None:
    first, second = (fit_program("forever", "--steps", "4", python=python) for python in ("", sys.executable))
    assert (first.status, first.verdict["fits"], first.verdict["ended"]) == (0, True, "steps")
    assert (first.verdict["steps"], first.verdict["calls"]) == (0, 4)
    assert first.verdict["ranks"] == second.verdict["ranks"]


def test_calls_of_a_model_that_is_trained_are_no_steps(fit_program: Any) -> None:
    verdict = fit_program("accumulating_first", "--steps", "2").verdict
    assert (verdict["ended"], verdict["steps"]) == ("steps", 2)


@pytest.mark.parametrize("options", [(), ("--steps", "0")])
def test_inference_runs_to_its_end_and_its_calls_are_counted(options: tuple[str, ...], fit_program: Any) -> None:
    verdict = fit_program("inference", *options).verdict
    assert (verdict["fits"], verdict["ended"], verdict["steps"], verdict["calls"]) == (True, "itself", 0, 7)
    assert verdict["ranks"][0]["series"][-1]["step"] == 7


def test_guesses_are_said_with_their_line(fit_program: Any) -> None:
    (guess,) = fit_program("selecting").verdict["guesses"]
    assert "fitted_programs.py:" in guess
    assert "nonzero depends on values that nobody has computed" in guess


def test_with_all_values_nothing_is_guessed(fit_program: Any) -> None:
    assert fit_program("selecting", "--values", "cpu", "--steps", "1").verdict["guesses"] == []


def test_a_programs_own_failure_comes_through_and_is_said_last_to_be_no_verdict(fit_program: Any) -> None:
    outcome = fit_program("with_a_bug")
    assert outcome.status == 1
    assert "mat1 and mat2 shapes cannot be multiplied" in outcome.err
    assert "frugal_alloc/_planning/fit" not in outcome.err
    assert (outcome.verdict["fits"], outcome.verdict["ended"]) == (None, "failed")
    assert outcome.err.splitlines()[-1] == (
        "frugal-alloc fit: no verdict: the program failed by itself, with exit status 1. Exit status 1 is the "
        "program's own: it does not say that the program does not fit."
    )
    refused = fit_program("one_request")
    assert refused.status == outcome.status
    assert "no verdict" not in refused.err


def test_a_program_that_exits_with_a_status_of_its_own_passes_it_on(fit: Any) -> None:
    outcome = fit("--memory", "2GiB", "--json", "--", sys.executable, "-c", "import torch; raise SystemExit(7)")
    assert (outcome.status, outcome.verdict["fits"]) == (7, None)


def test_a_gpu_for_which_pytorch_has_no_kernels_is_refused_in_a_line_before_it_is_used(fit: Any) -> None:
    if kernels.are_for(torch._C._cuda_getArchFlags().split(), "7.0"):
        pytest.skip("this PyTorch has kernels for Volta")
    program = [sys.executable, "-c", "import torch; print('used'); torch.zeros(9, device='cuda')"]
    for gpu, asked in (("V100-32GB", "sm_70"), ("GTX 1080", "sm_61")):
        outcome = fit("--gpu", gpu, "--", *program)
        assert (outcome.status, outcome.out) == (2, "")
        assert re.fullmatch(rf"frugal-alloc fit: PyTorch .* has no kernels for .*{asked}.*: install .*\n", outcome.err)
    found = fit("--find-gpu", "--json", "--", *program).verdict
    assert "V100" not in str(found["tried"]) and found["fits"]


@pytest.mark.parametrize(
    ("built_for", "runs", "does_not"),
    [
        (["sm_75", "sm_86", "sm_90"], ("7.5", "8.6", "8.9", "9.0"), ("7.0", "8.0", "10.0")),
        (["sm_80", "compute_90"], ("8.0", "8.9", "9.0", "12.1"), ("7.5",)),
        (["sm_90a", "sm_120"], ("9.0", "12.0", "12.1"), ("8.9", "10.0")),
        (["gfx90a"], ("9.0",), ()),
        ([], ("9.0",), ()),
    ],
)
def test_kernels_are_for_their_generation_from_their_own_gpu_on(
    built_for: list[str], runs: tuple[str, ...], does_not: tuple[str, ...]
) -> None:
    assert all(kernels.are_for(built_for, capability) for capability in runs)
    assert not any(kernels.are_for(built_for, capability) for capability in does_not)


@pytest.mark.parametrize(("capability", "what"), [("7.0", "an older CUDA"), ("11.0", "a newer PyTorch")])
def test_refusal_says_which_pytorch_has_kernels(capability: str, what: str) -> None:
    assert what in kernels.refusal("2.11.0", ["sm_75", "sm_90", "sm_120"], capability)


def test_a_program_that_uses_no_gpu_is_no_program_that_fits(fit_program: Any) -> None:
    outcome = fit_program("without_a_gpu")
    assert outcome.verdict["fits"] is None
    assert outcome.verdict["ranks"] == []


def test_properties_are_those_of_the_gpu_asked_for_and_what_is_printed_is_beside_the_json(fit: Any) -> None:
    code = (
        "import torch; p = torch.cuda.get_device_properties(0); print(p.name, p.major, p.minor, p.total_memory >> 20); "
        "torch.zeros(9, device='cuda')"
    )
    outcome = fit("--gpu", "RTX 4090", "--json", "--", sys.executable, "-c", code)
    assert "NVIDIA GeForce RTX 4090 8 9 24206" in outcome.err
    assert json.loads(outcome.out)["version"] == 2


def test_a_large_model_needs_little_of_the_hosts_memory() -> None:
    fitting = [sys.executable, "-m", "frugal_alloc", "fit", "--memory", "140GiB", "--steps", "2", "--json", "--"]
    program = [sys.executable, str(Path(__file__).with_name("fitted_programs.py")), "large"]
    line = [sys.executable, "-c", MEASURED, *fitting, *program]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600)
    (verdict,) = json.loads(done.stdout)["verdicts"]
    assert verdict["fits"], done
    assert verdict["ranks"][0]["requested_peak_bytes"] > 64 << 30
    # torch itself takes 0.7 GiB.
    assert int(done.stderr.splitlines()[-1]) < 2 << 20, done


PROGRAM = ["--", fork_server.interpreter(), PROGRAMS, "plain"]
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


@pytest.mark.parametrize(
    ("options", "variables", "allocator"),
    [
        ([], {}, "native"),
        ([], EXPANDABLE, "expandable"),
        (["--allocator", "expandable"], {}, "expandable"),
        (["--allocator", "frugal"], EXPANDABLE, "frugal"),
    ],
)
def test_the_allocator_is_pytorchs_as_the_environment_sets_it_unless_another_is_asked_for(
    options: list[str], variables: dict[str, str], allocator: str, fit: Any
) -> None:
    outcome = fit("--memory", "8GiB", "--json", "--steps", "1", *options, *PROGRAM, env=os.environ | variables)
    assert outcome.verdict["allocator"] == allocator


def test_an_allocator_that_the_program_sets_itself_is_the_one_that_is_named(fit: Any) -> None:
    code = "import os; os.environ.update(PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'); import torch; "
    code += "torch.zeros(9, device='cuda')"
    outcome = fit("--memory", "8GiB", "--", sys.executable, "-c", code)
    assert "with PyTorch's expandable segments" in outcome.out.splitlines()[0]


def test_a_program_needs_what_it_needs_with_the_settings_that_it_has(fit: Any, tmp_path: Path) -> None:
    """One rounds 600 MiB up to 768."""
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nparts = [torch.empty(600 << 20, dtype=torch.uint8, device='cuda') for _ in '12']\n"
    )
    line = ["--memory", "1536MiB", "--json", "--", fork_server.interpreter(), script]
    rounding = {"PYTORCH_CUDA_ALLOC_CONF": "roundup_power2_divisions:2"}
    plain, rounded = (fit(*line, env=os.environ | more).verdict["needs_bytes"] >> 20 for more in ({}, rounding))
    assert 1700 < plain < 1800 and 2040 < rounded < 2100


# A segment that is cut into four, of which two are free, and a tensor as large as both that fits into neither.
SPLIT = """
import torch
def part(mebibytes): return torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda")
part(400)
parts = [part(100) for _ in range(4)]
del parts[::2]
whole = part(200)
"""


def test_with_all_allocators_the_exit_status_is_of_the_first_which_is_pytorchs(fit: Any, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SPLIT)
    python = fork_server.interpreter()
    line = ["--memory", "1060MiB", "--json", "--allocator", "all", "--", python, script]
    outcome = fit(*line)
    verdicts = outcome.json["verdicts"]
    assert [verdict["allocator"] for verdict in verdicts] == ["native", "expandable", "frugal"]
    assert (outcome.status, verdicts[0]["fits"], verdicts[2]["fits"]) == (1, False, True)
    assert len({verdict["ranks"][0]["requested_peak_bytes"] for verdict in verdicts}) == 1
    first = fit(*line, env=os.environ | EXPANDABLE).json["verdicts"]
    assert [verdict["allocator"] for verdict in first] == ["expandable", "frugal"]


def test_what_frugal_alloc_would_save_is_measured(fit: Any, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SPLIT)
    program = ["--json", "--", fork_server.interpreter(), script]
    native = fit("--memory", "1060MiB", *program).verdict
    (change,) = [change for change in native["changes"] if "frugal_alloc.enable()" in change["text"]]
    needed = native["needs_bytes"] - change["bytes"]
    assert fit("--memory", str(needed + 2 * MIB), "--allocator", "frugal", *program).status == 0
    assert fit("--memory", str(int(needed * 0.97)), "--allocator", "frugal", *program).status == 1


FAILING = """
import os, signal, sys, torch
size = int(sys.argv[sys.argv.index("--batch") + 1])
for _ in range(2):
    torch.nn.Linear(8, 8).cuda()(torch.randn(size, 8).cuda()).mean().backward()
if size > int(sys.argv[2]):
    if sys.argv[1] == "fails":
        raise ValueError("no such batch")
    signal.signal(signal.SIGINT, {"exits": lambda *_: sys.exit(1)}.get(sys.argv[1], signal.default_int_handler))
    os.kill(os.getppid(), signal.SIGINT)
    while sys.argv[1] != "goes on":
        pass
"""


@pytest.mark.parametrize(
    ("how", "status", "ended"), [("fails", 1, "failed"), ("exits", 130, "interrupted"), ("goes on", 130, "interrupted")]
)
def test_a_value_at_which_the_program_fails_or_is_interrupted_is_none_that_does_not_fit(
    how: str, status: int, ended: str, fit: Any, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(FAILING)
    line = ["--memory", "1GiB", "--find-batch", "--batch=4..64", "--json", "--steps", "0"]
    # One that interrupts its parent has to be a child of the command's.
    python = fork_server.interpreter() if how == "fails" else sys.executable
    outcome = fit(*line, "--", python, script, how, "5")
    verdict = outcome.verdict
    assert (outcome.status, verdict["fits"], verdict["ended"], verdict["found"]) == (status, None, ended, "")
    assert [run["fits"] for run in verdict["tried"]] == [True, None]
    last = outcome.err.splitlines()[-1]
    assert f"at --batch {verdict['tried'][-1]['value']}" in last
    assert "known so far: 4 fits" in last


def test_the_largest_batch_is_found(fit: Any, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\n"
        "size = int(sys.argv[sys.argv.index('--batch-size') + 1])\n"
        "net = torch.nn.Linear(1024, 1024).cuda()\n"
        "for _ in range(9):\n"
        "    net(torch.randn(size, 1024).cuda()).relu().mean().backward()\n"
    )
    line = ["--memory", "1GiB", "--find-batch", "--batch-size=8192..131072", "--json", "--steps", "2"]
    verdict = fit(*line, "--", fork_server.interpreter(), script, "--batch-size", "1").verdict
    found = int(verdict["found"])
    assert verdict["searched"] == "--batch-size"
    assert verdict["fits"] and 8192 < found < 131072
    tried = {int(one["value"]): one["fits"] for one in verdict["tried"]}
    assert tried[found] and not tried[min(value for value in tried if value > found)]
    assert min(value for value in tried if value > found) <= found * 1.01 + 1
    assert len(tried) <= 16


def test_the_smallest_gpu_on_sale_is_found(fit_program: Any) -> None:
    verdict = fit_program("inference", "--find-gpu").verdict
    assert verdict["searched"] == "GPU"
    assert verdict["fits"] and verdict["found"] == verdict["gpu"]["name"]
    assert gpu_models.find(verdict["found"]).is_for_sale


def test_a_verdict_that_was_printed_as_json_is_shown_by_report(fit_program: Any, command: Any, tmp_path: Path) -> None:
    file = tmp_path / "fit.json"
    file.write_text(fit_program("plain", "--steps", "3").out)
    shown = command("report", file)
    assert shown.status == 0
    assert shown.out.startswith("fits: ") and "in 3 steps with PyTorch's native allocator" in shown.out
    file.write_text('{"version": 1, "verdicts": []}')
    command("report", file).assert_refused("an older version")


def test_the_example_of_the_documents_is_shown_by_report(command: Any) -> None:
    shown = command("report", Path(__file__).parents[2] / "docs" / "reports" / "examples" / "fit.json")
    assert shown.status == 0 and shown.out.startswith("fits: ")


def test_a_torch_without_cuda_is_told_which_to_install(fit: Any, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.11.0+cpu'\ncuda = None\nhip = None\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    line = ["--memory", "2GiB", "--", sys.executable, "-c", "import torch; print('went on')"]
    outcome = fit(*line, env=environment)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert "without CUDA" in outcome.err and "install" in outcome.err


WRONG = [
    ([], "say on which GPU"),
    (["--gpu", "RTX 4099"], "near it are"),
    (["--memory", "lots"], "write it like 16GiB"),
    (["--memory", "2GiB", "--gpus", "99"], "no number from 1 to 16"),
    (["--memory", "2GiB", "--steps", "-1"], "--steps -1 is not possible"),
    (["--memory", "4"], "did you mean --memory 4GiB?"),
    (["--memory", "40000"], "did you mean --memory 40000MiB?"),
    (["--memory", "4000000"], "write its unit: 16GiB, 512MiB"),
    (["--memory", "24GB"], "'24GB' has two meanings, powers of 1000 and of 1024; write 24GiB"),
    (["--memory", "4", "GiB"], "write it without the space: --memory 4GiB"),
    (["--gpu", "RTX", "4090"], 'write it in quotes: --gpu "RTX 4090"'),
    (["--memory", "2GiB", "--find-batch", "--batch", "8..9"], "write --find-batch --batch=8..9"),
    (["--memory", "2GiB", "--find-batch"], "--find-batch needs an argument of the program with the range"),
    (["--memory", "2GiB", "--find-gpu"], "leave --gpu and --memory out"),
    (["--memory", "2GiB", "--find-batch", "b=1..2", "--allocator", "all"], "one allocator"),
    (["--memory", "2GiB", "--allocator", "best"], "there is no 'best'"),
    (["--memory", "1MiB"], "too little memory"),
    (["--gpu", "MI300X"], "AMD's, and those are not modelled"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[words for _, words in WRONG])
def test_a_wrong_argument_gets_one_line_and_status_2(arguments: list[str], words: str, command: Any) -> None:
    outcome = command("fit", *arguments, "--", sys.executable, "-c", "print('ran')")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert words in outcome.err


def test_an_allocator_that_cannot_be_followed_is_refused(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync")
    outcome = command("fit", "--memory", "2GiB", "--", sys.executable, "-c", "print('ran')")
    assert (outcome.status, outcome.out) == (2, "")
    assert "cudaMallocAsync cannot be followed" in outcome.err


def test_a_program_that_is_not_there_or_not_named_gets_one_line_and_status_2(fit: Any) -> None:
    outcome = fit("--memory", "2GiB", "--", "no-such-program")
    assert outcome.status == 2
    assert outcome.err == "frugal-alloc fit: 'no-such-program' is not a program that can be found and run\n"
    outcome = fit("--memory", "2GiB", "--")
    assert outcome.status == 2
    assert "name the command to run, after --" in outcome.err
