"""The command: statuses, what is told of whom, and what cannot be done."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from carried_out import in_a_process
from checked_project import Project
from simulated_gpu import gpu_models

TESTS = """
import subprocess, sys

import pytest
import torch

kept = []


@pytest.fixture(scope="session")
def shared():
    return torch.empty(3 << 20, device="cuda")


def test_plain():
    torch.empty(1 << 20, device="cuda")


def test_shared(shared):
    shared.clone()


def test_leak():
    kept.append(torch.empty(1 << 20, device="cuda"))


def test_child():
    subprocess.run([sys.executable, "child.py"], check=True)


def test_nothing():
    pass
"""
CHILD = "import torch\nx = torch.empty(5 << 20, device='cuda')\n"
FAILING = "\ndef test_broken():\n    x = torch.empty(9 << 20, device='cuda')\n    assert x is None\n"
MIB = 1 << 20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("command"))
    project.write("test_it.py", TESTS)
    project.write("child.py", CHILD)
    assert project.check("--update", "--values", "none").status == 0
    return project


def test_each_test_each_shared_fixture_and_each_process_has_its_figures(made: Project) -> None:
    assert {name: record["peak"] // MIB for name, record in made.records.items()} == {
        "session: fixture shared": 12,
        "test_it.py::test_child > child.py": 20,
        "test_it.py::test_leak": 4,
        "test_it.py::test_plain": 4,
        "test_it.py::test_shared": 12,
    }
    assert {name for name, record in made.records.items() if record.get("leaked")} == {"test_it.py::test_leak"}
    assert made.records["test_it.py::test_leak"]["leaks"][0][:3] == ["test_it.py", "test_leak", 24]
    assert made.records["test_it.py::test_plain"]["calls"] == {"malloc": 1}


def test_a_test_that_fails_fails_by_itself(made: Project) -> None:
    made.write("test_it.py", TESTS + FAILING)
    outcome = made.check()
    assert outcome.status == 1
    assert "assert x is None" in outcome.out and "1 failed, 5 passed" in outcome.out
    assert outcome.out.splitlines()[-1] == (
        "frugal-alloc check: 5 tests and processes compared, no more memory than the baseline says; "
        "exit status 1 comes from 1 test that failed, not from memory"
    )
    in_json = made.check("--json")
    assert in_json.json["notes"] == ["exit status 1 comes from 1 test that failed, not from memory"]
    assert (in_json.json["status"], in_json.json["compared"]) == (1, 5)
    assert "1 failed, 5 passed" in in_json.err
    before = made.baseline
    update = made.check("--update")
    assert update.status == 1
    assert "memory.json has 5 tests and processes, 0 changed; exit status 1 comes from 1 test that failed" in update.out
    assert made.baseline == before
    made.write("test_it.py", TESTS)


def test_a_status_that_no_test_gives_is_the_commands(made: Project) -> None:
    made.write("conftest.py", "def pytest_sessionfinish(session):\n    session.exitstatus = 7\n")
    outcome = made.check()
    assert outcome.status == 7
    assert outcome.out.rstrip().endswith("; exit status 7 comes from the command itself, not from memory")
    (made.folder / "conftest.py").unlink()


def test_tests_that_are_gone_leave_the_baseline_and_those_not_chosen_stay(made: Project) -> None:
    before = (made.folder / "memory.json").read_text()
    chosen = made.check("--update", pytest_options=["test_it.py::test_plain"])
    assert chosen.status == 0 and (made.folder / "memory.json").read_text() == before
    assert made.check("--update", pytest_options=["-k", "plain"]).status == 0
    assert (made.folder / "memory.json").read_text() == before
    made.write("test_it.py", TESTS.replace("def test_leak", "def check_leak"))
    assert made.check("--update").status == 0
    assert sorted(set(json.loads(before)["records"]) - set(made.records)) == ["test_it.py::test_leak"]
    made.write("test_it.py", TESTS)
    (made.folder / "memory.json").write_text(before)


def test_a_growing_leak_is_a_regression_and_the_reason_of_the_status_even_where_tests_fail(made: Project) -> None:
    grown = TESTS.replace("append(torch.empty(1 << 20", "append(torch.empty(2 << 20")
    made.write("test_it.py", grown + FAILING)
    outcome = made.check()
    assert outcome.status == 1
    assert outcome.out.rstrip().endswith("takes more than the baseline says (if that is meant: --update)")
    made.write("test_it.py", grown)
    assert "test_it.py::test_leak: leaks 4.00 -> 8.00 MiB, +4.00 at test_it.py:24" in outcome.out
    assert made.check("--allow", "100%").status == 0
    assert made.check("--allow", "4MiB").status == 0
    made.write("test_it.py", TESTS)


def test_who_holds_what_a_test_keeps_is_told(made: Project) -> None:
    grown = TESTS.replace("append(torch.empty(1 << 20", "append(torch.empty(2 << 20")
    made.write("test_it.py", grown)
    out = made.check().out
    assert "+4.00 at test_it.py:24, held by tensor in list 'kept'" in out, out
    made.write("test_it.py", TESTS)


def test_a_few_bytes_more_are_noise_unless_none_are_allowed(made: Project) -> None:
    made.write("test_it.py", TESTS.replace("torch.empty(1 << 20, device", "torch.empty((1 << 20) + 6, device"))
    assert made.check().status == 0
    assert made.check("--allow", "0").status == 1
    made.write("test_it.py", TESTS)


def test_a_check_that_compares_nothing_has_not_passed(made: Project) -> None:
    made.write("test_it.py", TESTS.replace("def test_", "def test_renamed_").replace("def shared", "def common"))
    outcome = made.check("--json", pytest_options=["-k", "renamed_plain"])
    assert (outcome.status, outcome.json["status"], outcome.json["compared"]) == (2, 2, 0)
    outcome = made.check(pytest_options=["-k", "renamed_plain"])
    assert outcome.status == 2
    assert outcome.out.splitlines()[-1].startswith("frugal-alloc check: nothing was compared")
    made.write("test_it.py", TESTS)


def test_another_setting_than_the_baselines_is_refused(made: Project) -> None:
    for option, value in (
        ("--memory", "8GiB"),
        ("--values", "cpu"),
        ("--gpus", "2"),
        ("--allocator", "frugal"),
        ("--gpu", "T4"),
    ):
        outcome = made.check(option, value)
        assert outcome.status == 2
        assert outcome.err.count("\n") == 1 and "was made with" in outcome.err


def test_a_gpu_that_is_named_gives_its_memory_and_properties(tmp_path: Path) -> None:
    project = Project(tmp_path, sys.executable)
    project.write("one.py", "import torch\ntorch.zeros(9, device='cuda')\nprint(torch.cuda.get_device_name())\n")
    program = [project.python, "one.py"]
    made = project.check("--update", "--values", "none", "--gpu", "T4", command=program)
    assert made.status == 0 and "Tesla T4" in made.out
    model = gpu_models.find("T4")
    known = project.baseline
    assert (known["gpu"], known["memory"]) == (model.name, model.memory_bytes)
    compared = project.check(command=program)
    assert compared.status == 0 and "Tesla T4" in compared.out
    assert "was made with --gpu Tesla T4" in project.check("--gpu", "L4", command=program).err


def test_programs_are_told_by_their_names(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("child.py", CHILD)
    starting = "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'], check=True)\n"
    project.write("train.py", CHILD + starting)
    program = [project.python, "train.py"]
    assert project.check("--update", "--values", "none", command=program).status == 0
    assert sorted(project.records) == ["child.py", "train.py"]
    project.write("child.py", CHILD.replace("5", "6"))
    outcome = project.check(command=program)
    assert outcome.status == 1
    assert "child.py: peak 20.00 -> 24.00 MiB, +4.00 at child.py:2" in outcome.out
    project.write("child.py", CHILD + "raise SystemExit(7)")
    assert project.check(command=[project.python, "child.py"]).status == 7


UPDATE = ("--baseline", "memory.json", "--update")


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--", "true"], "--baseline"),
        (["--baseline", "memory.json"], "name the command"),
        (["--baseline", "memory.json", "--", "true"], "make one by the same command with --update"),
        ([*UPDATE, "--", "no-such-program"], "no-such-program"),
        ([*UPDATE, "--", "true"], "--values none"),
        ([*UPDATE, "--values", "none", "--", "true"], "nothing was measured"),
        ([*UPDATE, "--values", "none", "--", "false"], "ended with status 1"),
        ([*UPDATE, "--values", "none", "--", sys.executable, "-m", "pytest", "failing.py"], "no test passed"),
        (["--baseline", "none/memory.json", "--update", "--", "true"], "no folder"),
        (["--baseline", "other.json", "--update", "--", "true"], "is no baseline"),
        (["--baseline", "memory.json", "--allow", "much", "--", "true"], "1MiB"),
        (["--baseline", "memory.json", "--allow", "-3%", "--", "true"], "--allow"),
        (["--baseline", "memory.json", "--memory", "0", "--", "true"], "amount of memory"),
        (["--baseline", "memory.json", "--gpus", "99", "--", "true"], "1 to 16"),
        (["--baseline", "memory.json", "--runs", "0", "--", "true"], "1 to 100"),
        (["--baseline", "memory.json", "--allocator", "best", "--", "true"], "there is no 'best'"),
        (["--baseline", "memory.json", "--allocator", "all", "--", "true"], "a baseline is of one allocator"),
        (["--baseline", "memory.json", "--gpu", "RTX 4095", "--", "true"], "RTX 4090"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"somebody": "else"}')
    (tmp_path / "failing.py").write_text(
        "import torch\n\ndef test_one():\n    assert not torch.ones(8, device='cuda').all()\n"
    )
    # In a process of its own: the command waits for its program by signals, which another thread would take.
    outcome = in_a_process("check", *arguments, cwd=tmp_path)
    assert outcome.status == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
    assert (tmp_path / "other.json").read_text() == '{"somebody": "else"}'
