"""bench/train_bench.py: arguments, interruptions, what figures are held against; a training on the simulated GPU."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from frugal_alloc._simulation import simulated_gpu

from bench import train_bench
from bench.training import results, runs

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--quick", "--models", "gpt2", "--allocators", "native,frugal"]
SETUP = results.Setup("abc", {}, {}, "a GPU", 24 << 30, False, 0, 15, 40, 2, False, [])


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "bench.train_bench", *SMALL, *map(str, arguments)]


def run(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=600, cwd=ROOT, **options)


def a_run(allocator: str, capacity: str, repeat: int, speed: float | None, outcome: str = "completed") -> runs.Run:
    return runs.Run(
        workload="gpt2",
        allocator=allocator,
        capacity=capacity,
        capacity_bytes=None if capacity == "ample" else 4 << 30,
        repeat=repeat,
        outcome=outcome,
        problem=None if outcome == "completed" else "it broke",
        steps_done=55 if outcome == "completed" else 6,
        steps_per_second=speed,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--models", "gpt3"],
        ["--allocators", "native,jemalloc"],
        ["--capacities", "1.1,plenty"],
        ["--capacities", "nan"],
        ["--steps", "0"],
        ["--seed", "-1"],
        ["--minutes", "soon"],
        ["--simulate", "1MiB"],
        ["--json", "/nowhere/figures.json"],
        ["gpt2"],
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments, capsys):
    try:
        status = train_bench.main(arguments)
    except SystemExit as ended:
        status = ended.code
    errors = capsys.readouterr().err
    assert status == 2
    assert errors.startswith("train_bench: ") and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("capacity", "ours", "theirs", "measured", "reached"),
    [
        ("ample", [99.0], [100.0], "0.990", True),
        ("ample", [98.9], [100.0], "0.989", False),
        # The machine halves its speed between repeats: a ratio is of the same one.
        ("ample", [98.0, 49.0], [100.0, 50.0], "0.980", False),
        ("1.02", [9.0], [9.0], "1.000", False),
        ("1.02", [9.0], [None], "native did not complete, ours did", True),
        ("1.02", [None], [9.0], "ours did not complete", False),
    ],
)
def test_ours_is_as_fast_with_ample_memory_and_faster_where_it_is_tight(capacity, ours, theirs, measured, reached):
    made = [
        a_run(name, capacity, repeat, speed, "completed" if speed else "out_of_memory")
        for name, speeds in {"native": theirs, "frugal": ours}.items()
        for repeat, speed in enumerate(speeds)
    ]
    [bar] = results.bars(made)
    assert (bar.measured, bar.reached) == (measured, reached)


def test_the_table_has_medians_and_says_who_ran_out_of_memory_and_when():
    calls = {"driver_calls": {"map": 7, "create": 5}, "driver_ns": 2_500_000, "window_driver_ns": 0}
    made = [a_run("native", "1.02", n, 9.0 + n) for n in range(2)]
    made += [dataclasses.replace(a_run("frugal", "1.02", 0, 9.0), **calls)]
    made += [a_run("frugal", "1.02", 1, None, "out_of_memory")]
    lines = results.text(SETUP, made).splitlines()
    assert lines[0] == "gpt2, 1.02 times ours' peak = 4,096 MiB"
    assert "| 9.500 | 7.4% |" in lines[4] and "completed 55 steps" in lines[4]
    assert lines[5].endswith("| 12 | 2.5 | 0.0 | out of memory in step 7 of repeat 2 |")


def test_a_training_on_the_simulated_gpu_tells_memory_but_no_speed(tmp_path):
    file = tmp_path / "figures.json"
    # What the user has set for other programs does not count.
    others = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "FRUGAL_SIM_FAULTS": "malloc@1+=invalid_value"}
    done = run("--capacities", "ample", "--simulate", "4GiB", "--json", file, env=os.environ | others)
    assert done.returncode == 0, done.stderr
    assert "no speed is measured" in done.stdout and "steps/s" not in done.stdout
    figures = json.loads(file.read_text())
    assert figures["setup"]["simulated"] and figures["bars"] == []
    native, ours = figures["runs"]
    assert [native["allocator"], ours["allocator"]] == ["native", "frugal"]
    for measured in (native, ours):
        assert measured["outcome"] == "completed" and measured["steps_done"] == 8
        assert measured["steps_per_second"] is None
        assert 0 < measured["peak_allocated_bytes"] <= measured["peak_reserved_bytes"]
        assert measured["driver_ns"] > 0
    assert native["driver_calls"]["malloc"] > 0 and native["driver_calls"]["map"] == 0
    assert ours["driver_calls"]["malloc"] == 0 and ours["driver_calls"]["map"] > 0


def test_what_would_not_be_done_in_time_is_not_begun_and_told(monkeypatch):
    begun = []

    class Trainer:
        def train(self, workload, allocator, capacity, size, repeat):
            begun.append((workload, repeat))
            return a_run(allocator, capacity, repeat, 1.0)

    # Each training takes 10 s.
    monkeypatch.setattr(runs.time, "monotonic", lambda: 10.0 * len(begun))
    trained, left_out = runs.carry_out(
        Trainer(), ["gpt2", "fasterrcnn"], ["native", "frugal"], ["ample"], 2, lambda _: None, end=50.0
    )
    assert begun == [("gpt2", 0)] * 2 + [("fasterrcnn", 0)] * 2
    assert len(trained) == 4 and results.bars(trained)
    assert left_out == [f"{name}, ample, repeat 2: no time was left" for name in ("gpt2", "fasterrcnn")]


def test_models_that_need_torchvision_are_left_out_without_it():
    models, left_out = train_bench._possible(["gpt2", "resnet50"], None)
    assert models == ["gpt2"]
    assert left_out == ["resnet50 was left out: torchvision is not installed."]


COUNTS = """
import json, sys, torch
from bench.training import worker
allocator = sys.argv[1]
if allocator == "frugal":
    import frugal_alloc
    frugal_alloc.enable()
torch.cuda.init()
before = worker.counted(allocator), worker.counted("gpu")
held = [torch.empty(30 << 20, dtype=torch.uint8, device="cuda") for _ in range(5)]
del held
torch.cuda.empty_cache()
after = worker.counted(allocator), worker.counted("gpu")
print(json.dumps([{kind: late[kind] - early.get(kind, 0) for kind in late} for early, late in zip(before, after)]))
"""


@pytest.mark.parametrize("allocator", ["frugal", "native"])
def test_the_allocator_counts_its_driver_calls_as_the_gpu_does(allocator):
    environment = simulated_gpu.environment(4 << 30, backing="none") | {"PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", COUNTS, allocator]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    counted, by_the_gpu = json.loads(done.stdout.splitlines()[-1])
    if allocator == "frugal":
        assert counted.pop("ns") > 0
        # The GPU counts the two handles, too, with which ours tries virtual memory at first, and what PyTorch calls.
        assert counted["create"] == by_the_gpu["create"] - 2 > 0
        assert counted["unmap"] == by_the_gpu["unmap"] - 2 > 0
        assert counted["malloc"] == counted["free"] == 0
    else:
        assert counted == {kind: by_the_gpu[kind] for kind in ("malloc", "free")}
        assert counted["malloc"] == counted["free"] > 0


def test_without_a_peak_of_ours_there_are_no_tight_capacities(tmp_path):
    file = tmp_path / "figures.json"
    # The driver keeps 512 MiB of it.
    done = run("--capacities", "ample,1.05", "--simulate", "560MiB", "--json", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("out of memory in step 1") == 2
    figures = json.loads(file.read_text())
    assert {(run["capacity"], run["outcome"]) for run in figures["runs"]} == {("ample", "out_of_memory")}
    [sentence] = figures["setup"]["left_out"]
    assert sentence.startswith("gpt2 at tight capacities") and sentence in done.stdout


def test_an_interruption_ends_the_training_and_writes_nothing(tmp_path):
    scratch = tmp_path / "scratch"  # named in the arguments of each training
    scratch.mkdir()
    long = command("--steps", "1000000", "--simulate", "4GiB", "--json", tmp_path / "figures.json")
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    with subprocess.Popen(long, env=os.environ | {"TMPDIR": str(scratch)}, **options) as process:
        process.stdout.readline()
        while not processes_naming(scratch):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in errors
    assert not processes_naming(scratch)
    assert [path.name for path in tmp_path.iterdir()] == ["scratch"] and not list(scratch.glob("tmp*"))


def processes_naming(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue  # it has ended
    return found
