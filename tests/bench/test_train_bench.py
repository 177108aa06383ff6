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
from bench.training import results, runs, table

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--quick", "--models", "gpt2", "--allocators", "native,frugal"]


def run(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.train_bench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT, **options)


def a_run(allocator: str, capacity: str, repeat: int, speed: float | None, outcome: str = "completed") -> results.Run:
    return results.Run(
        workload="gpt2",
        allocator=allocator,
        capacity=capacity,
        capacity_bytes=None if capacity == "ample" else 4 << 30,
        repeat=repeat,
        outcome=outcome,
        problem=None if outcome == "completed" else "it broke",
        steps_done=55 if outcome == "completed" else 6,
        steps_per_second=speed,
        peak_allocated_bytes=3 << 30,
        peak_reserved_bytes=(3 << 30) + (64 << 20),
        alloc_retries=0,
        ooms=0,
    )


def a_setup(**changes) -> results.Setup:
    setup = results.Setup("abc", {}, {}, "a GPU", 24 << 30, False, 0, 15, 40, 2, False, [])
    return dataclasses.replace(setup, **changes)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--models", "gpt3"],
        ["--allocators", "native,jemalloc"],
        ["--capacities", "1.1,plenty"],
        ["--capacities", "nan"],
        ["--capacities", "-1"],
        ["--steps", "0"],
        ["--repeats", "many"],
        ["--seed", "-1"],
        ["--minutes", "0"],
        ["--minutes", "soon"],
        ["--simulate", "much"],
        ["--simulate", "1MiB"],
        ["--json", "/nowhere/figures.json"],
        ["--json", "/"],
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


def test_as_fast_as_native_with_ample_memory_is_99_percent_of_its_speed():
    def ratio_of(ours: float) -> results.Bar:
        [bar] = results.bars([a_run("native", "ample", 0, 100.0), a_run("frugal", "ample", 0, ours)])
        return bar

    assert ratio_of(99.0).reached
    assert not ratio_of(98.9).reached
    assert ratio_of(98.9).measured == "0.989"


def test_ratios_are_of_the_same_repeat():
    # The machine halves its speed between repeats: ours is a hair slower in each, which medians of all would not show.
    runs = [a_run("native", "ample", 0, 100.0), a_run("frugal", "ample", 0, 98.0)]
    runs += [a_run("frugal", "ample", 1, 49.0), a_run("native", "ample", 1, 50.0)]
    [bar] = results.bars(runs)
    assert bar.measured == "0.980"


def test_at_tight_capacity_ours_has_to_be_ahead_of_both():
    runs = [a_run("native", "1.02", 0, None, "out_of_memory"), a_run("expandable", "1.02", 0, 9.0)]
    runs += [a_run("frugal", "1.02", 0, 9.0)]
    native, expandable = results.bars(runs)
    assert native.reached and "did not complete" in native.measured
    assert not expandable.reached and expandable.measured == "1.000"


def test_ours_falls_short_where_it_does_not_complete():
    runs = [a_run("native", "1.02", 0, 9.0), a_run("frugal", "1.02", 0, None, "out_of_memory")]
    assert [bar.reached for bar in results.bars(runs)] == [False]


def test_no_bars_without_speeds():
    assert results.bars([a_run("native", "ample", 0, None), a_run("frugal", "ample", 0, None)]) == []


def test_speed_is_the_median_with_its_spread():
    summary = results.Summary([a_run("native", "ample", n, speed) for n, speed in enumerate((9.0, 10.0, 12.0))])
    assert summary.speed == 10.0
    assert summary.spread == pytest.approx(0.1528, abs=1e-4)


def test_the_table_says_who_ran_out_of_memory_and_when():
    runs = [a_run("native", "1.02", n, 9.0 + n) for n in range(2)]
    runs += [a_run("frugal", "1.02", 0, 9.0), a_run("frugal", "1.02", 1, None, "out_of_memory")]
    lines = table.text(a_setup(), runs, []).splitlines()
    assert lines[0] == "gpt2, 1.02 times ours' peak = 4,096 MiB"
    assert "| 9.500 |" in lines[4] and "completed 55 steps" in lines[4]
    assert lines[5].endswith("| out of memory in step 7 of repeat 2 |")


def test_a_training_on_the_simulated_gpu_tells_memory_but_no_speed(tmp_path):
    file = tmp_path / "figures.json"
    # What the user has set for other programs does not count.
    others = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "FRUGAL_SIM_FAULTS": "malloc@1+=invalid_value"}
    done = run(*SMALL, "--capacities", "ample", "--simulate", "4GiB", "--json", file, env=os.environ | others)
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
    assert train_bench._possible(["gpt2", "resnet50"], "0.26") == (["gpt2", "resnet50"], [])
    models, left_out = train_bench._possible(["gpt2", "resnet50"], None)
    assert models == ["gpt2"]
    assert left_out == ["resnet50 was left out: torchvision is not installed."]


def test_on_a_real_gpu_the_table_has_the_driver_time_of_ours():
    calls = {"driver_calls": {"map": 7, "create": 5}, "driver_ns": 2_500_000, "window_driver_ns": 0}
    ours = dataclasses.replace(a_run("frugal", "ample", 0, 9.0), **calls)
    text = table.text(a_setup(), [a_run("native", "ample", 0, 9.0), ours], [])
    assert "| 0 | 12 | 2.5 | 0.0 |" in text.splitlines()[5]
    assert "measured around each call of ours" in text


COUNTS = """
import json, sys, torch
from bench.training import worker
allocator = sys.argv[1]
if allocator == "frugal":
    import frugal_alloc
    frugal_alloc.enable()
torch.cuda.init()
counted = worker._COUNTED_BY[allocator]
before = counted(), worker._counted_by_the_gpu()
held = [torch.empty(30 << 20, dtype=torch.uint8, device="cuda") for _ in range(5)]
del held
torch.cuda.empty_cache()
after = counted(), worker._counted_by_the_gpu()
print(json.dumps([{kind: late[kind] - early.get(kind, 0) for kind in late} for early, late in zip(before, after)]))
"""


@pytest.mark.parametrize("allocator", ["frugal", "native"])
def test_the_allocator_counts_its_driver_calls_as_the_gpu_does(allocator):
    environment = simulated_gpu.environment(4 << 30, backing="none") | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", COUNTS, allocator]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT, env=environment)
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
    done = run(*SMALL, "--capacities", "ample,1.05", "--simulate", "560MiB", "--json", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("out of memory in step 1") == 2
    figures = json.loads(file.read_text())
    assert [run["capacity"] for run in figures["runs"]] == ["ample", "ample"]
    assert {run["outcome"] for run in figures["runs"]} == {"out_of_memory"}
    [sentence] = figures["setup"]["left_out"]
    assert sentence.startswith("gpt2 at tight capacities") and sentence in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_the_training_and_writes_nothing(number, tmp_path):
    scratch = tmp_path / "scratch"  # named in the arguments of each training
    scratch.mkdir()
    file = tmp_path / "figures.json"
    command = [
        sys.executable,
        "-m",
        "bench.train_bench",
        *SMALL,
        "--steps",
        "1000000",
        "--simulate",
        "4GiB",
        "--json",
        str(file),
    ]
    environment = os.environ | {"TMPDIR": str(scratch)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as process:
        process.stdout.readline()
        while not processes_naming(scratch):
            assert process.poll() is None
        process.send_signal(number)
        _, errors = process.communicate()
    assert process.returncode == 128 + number
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
