"""Reports that are written as a program ends, and files of suppressions."""

from __future__ import annotations

import json

import frugal_alloc
import pytest
from frugal_alloc._program.code_lines import CodeLine
from frugal_alloc._tracking import declarations
from frugal_alloc._tracking.declarations import Suppression

LINE = CodeLine("/home/me/project/train.py", 42, "train_epoch", "train")

LEAKING = """
import os, sys
import frugal_alloc, torch
from torch.utils.data import DataLoader, TensorDataset
frugal_alloc.enable()
kept = []
parameter = torch.nn.Parameter(torch.ones(8, device="cuda"))
optimizer = torch.optim.SGD([parameter], lr=0.1)
def work():
    for _ in range(10):
        for (inputs,) in DataLoader(TensorDataset(torch.ones(8, 8)), batch_size=2, num_workers=0):
            (inputs.cuda() * parameter).sum().backward()
            kept.append(torch.ones(4096, device="cuda"))
            optimizer.step()
work()
"""


def written(folder) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def test_program_that_makes_up_code_is_told_that_places_are_missing(run_program, tmp_path):
    program = """
import frugal_alloc, torch
frugal_alloc.enable()
made_up = [compile("torch.empty(1 << 18, device='cuda')", f"{number}.py", "exec") for number in range(66_000)]
for code in made_up:
    exec(code)
print(frugal_alloc.report(), file=__import__("sys").stderr)
"""
    errors = run_program(program, FRUGAL_ALLOC_CONF=f"report_dir:{tmp_path}")
    (document,) = written(tmp_path)
    (note,) = [note for note in document["notes"] if "more than 65,000 places" in note]
    assert note in " ".join(errors.split())


@pytest.mark.parametrize(
    ("ending", "status"), [("", 0), ("sys.exit(3)", 3), ("raise ValueError('theirs')", 1)], ids=["end", "exit", "error"]
)
def test_report_is_written_however_the_program_ends(ending, status, run_program, tmp_path):
    program = LEAKING + ending + "\n"
    run_program(program, status=status, FRUGAL_ALLOC_CONF=f"report_dir:{tmp_path / 'reports'}", RANK="3")
    (document,) = written(tmp_path / "reports")
    pid = document["run"]["pid"]
    assert {path.name for path in (tmp_path / "reports").iterdir()} >= {f"frugal-3-{pid}.json"}
    assert [verdict["code"] for verdict in document["verdicts"]] == ['kept.append(torch.ones(4096, device="cuda"))']
    assert document["verdicts"][0]["held_by"][0]["what"] == "list 'kept'"


@pytest.mark.parametrize(("floats", "is_material"), [("4096", True), ("8", False)])
def test_end_of_a_run_speaks_of_what_is_material_only(floats, is_material, run_program, tmp_path):
    program = LEAKING.replace("4096", floats)
    errors = run_program(program, FRUGAL_ALLOC_CONF=f"report_dir:{tmp_path}")
    (document,) = written(tmp_path)
    assert [verdict["material"] for verdict in document["verdicts"]] == [is_material]
    assert ("frugal_alloc: 1 verdict on this run's memory: " in errors) == is_material


def test_neither_workers_nor_forked_children_write_one(run_program, tmp_path):
    fork = "\nif os.fork() == 0:\n    sys.exit(0)\nos.wait()\n"
    program = LEAKING.replace("num_workers=0", "num_workers=1").replace("range(10)", "range(1)")
    run_program(program + fork, FRUGAL_ALLOC_CONF=f"report_dir:{tmp_path}")
    assert len(written(tmp_path)) == 1


def test_folder_that_cannot_be_written_is_one_line_and_no_other_status(run_program, tmp_path):
    (tmp_path / "file").write_text("")
    errors = run_program(LEAKING, FRUGAL_ALLOC_CONF=f"report_dir:{tmp_path / 'file'}")
    lines = [line for line in errors.splitlines() if "no report was written" in line]
    assert len(lines) == 1
    assert "Traceback" not in errors


@pytest.mark.parametrize("is_later", [False, True], ids=["of the settings", "named while enabled"])
def test_suppressed_line_is_counted_and_not_told(is_later, run_program, tmp_path):
    path = tmp_path / "suppressions"
    path.write_text("# the cache\nleak:*program.py:*  # kept\n")
    later = f"\nfrugal_alloc.enable(suppressions={str(path)!r})\nwork()\n"
    program = LEAKING.replace("\nwork()\n", later) if is_later else LEAKING
    settings = f"report_dir:{tmp_path / 'reports'}" + ("" if is_later else f",suppressions:{path}")
    run_program(program, FRUGAL_ALLOC_CONF=settings)
    (document,) = written(tmp_path / "reports")
    assert (document["verdicts"], document["suppressed"]) == ([], 1)


def test_file_of_suppressions_that_is_not_there_is_refused_at_any_time_and_changes_nothing(run_program, tmp_path):
    program = """
import json
import frugal_alloc
refused = []
for change in (lambda: None, frugal_alloc.enable, frugal_alloc.disable):
    change()
    before = frugal_alloc.is_enabled()
    try:
        frugal_alloc.enable(memory_limit="1GiB", suppressions="/not/there")
    except frugal_alloc.FrugalAllocError as error:
        refused.append("/not/there" in str(error) and frugal_alloc.is_enabled() == before)
from frugal_alloc import _native
refused.append(_native.load().setting("memory_limit"))
print("RESULTS" + json.dumps(refused))
"""
    assert run_program(program, FRUGAL_ALLOC_CONF=f"report_dir:{tmp_path}") == [True, True, True, "off"]


def test_bad_suppression_ends_enable_in_one_line(run_program, tmp_path):
    path = tmp_path / "suppressions"
    path.write_text("leak:train.py:1\nleek:train.py\n")
    program = (
        "import frugal_alloc\n"
        "try:\n    frugal_alloc.enable()\n"
        "except frugal_alloc.FrugalAllocError as error:\n    print(error)\n"
        "import json\nprint('RESULTS' + json.dumps(frugal_alloc.is_enabled()))\n"
    )
    assert run_program(program, FRUGAL_ALLOC_CONF=f"suppressions:{path}") is False


@pytest.mark.parametrize(
    "pattern",
    ["train.py:42", "train.py", "project/train.py:42", "*/project/*", "train_epoch", "train", "train.py:4?", "train*"],
)
def test_pattern_matches_file_and_line_function_or_phase(pattern):
    assert Suppression("leak", pattern).covers("leak", LINE)
    assert not Suppression("cycle", pattern).covers("leak", LINE)
    assert Suppression("*", pattern).covers("suspect", LINE)


@pytest.mark.parametrize("pattern", ["train.py:4", "rain.py:42", "epoch", "train.py:421"])
def test_pattern_matches_whole_names(pattern):
    assert not Suppression("leak", pattern).covers("leak", LINE)


def test_what_has_no_place_is_matched_by_the_kind_alone():
    assert Suppression("outside", "*").covers("outside", None)
    assert not Suppression("outside", "train.py").covers("outside", None)


@pytest.mark.parametrize("line", ["leak", "leak:", ":train.py", "leaks:train.py", "train.py:12"])
def test_line_that_is_none_is_refused_with_its_number(line, tmp_path):
    path = tmp_path / "list"
    path.write_text(f"\n# first\n{line}\n")
    with pytest.raises(frugal_alloc.FrugalAllocError) as refused:
        declarations.read_suppressions(str(path))
    assert str(refused.value).startswith(f"{path}:3: ")
    assert "\n" not in str(refused.value)


def test_without_tracking_all_of_it_still_answers(run_program):
    program = """
import json, frugal_alloc, torch
frugal_alloc.enable()
with frugal_alloc.phase("part"), frugal_alloc.measure() as region, frugal_alloc.expect_growth("cache"):
    kept = torch.ones(1000, device="cuda")
frugal_alloc.epoch_end()
try:
    with frugal_alloc.no_leaks():
        more = torch.ones(1 << 20, device="cuda")
except frugal_alloc.LeakError as error:
    message = str(error)
report = frugal_alloc.report()
print("RESULTS" + json.dumps([message, report.verdicts, report.document["notes"], str(report), str(region)]))
"""
    message, verdicts, notes, text, _ = run_program(program, FRUGAL_ALLOC_CONF="track:off")
    assert "4.00 MiB" in message
    assert verdicts == []
    assert any("the setting track is off" in note for note in notes)
    assert text.startswith("frugal_alloc: nothing is known about leaks")
