"""Each command in a document runs as it stands, from the surroundings that the document names, or is listed here.

The commands of a document run in their order in one shell, in a folder that has what its reader has: a training,
reports of runs, a program. Where they need a GPU, the shell is on the simulated one.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "reports"), str(ROOT / "tests" / "tutorials")]
import report_samples as samples  # noqa: E402
import tutorial  # noqa: E402

DOCUMENTS = [
    ROOT / "README.md",
    *sorted(path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*.md")),
]
# Commands that begin so are not run: why, and what runs what they do, if anything does.
NOT_RUN = {
    "tools/test": "runs this",
    "pip install .": "compiles for minutes; tests/versions/test_building.py",
    "pip wheel .": "the same",
    "pip install --no-index --find-links": "changes the Python that it runs in; tests/versions/test_wheel_index.py",
    "pip uninstall": "takes away what is tested",
    "frugal-alloc remove-hook": "changes the Python that it runs in; tests/cli/test_hook.py",
    "rattler-build build": "needs conda and a channel",
    "docker ": "needs Docker and an image",
    "srun ": "needs Slurm",
    "frugal-alloc install-hook": "changes the Python that it runs in; tests/cli/test_hook.py has one of its own",
    "frugal-alloc doctor --gpu": "takes two minutes; tests/gpu_check/test_doctor_gpu.py",
    "tools/gpu_check pack": "tests/gpu_check/test_packed.py",
    "FRUGAL_TEST_GPU=": "needs a real GPU; tests/hardware runs on the simulated one",
    "scp ": "needs a second machine",
    "frugal-alloc top --prometheus": "goes on until it is stopped; tests/top/test_metrics.py",
    "DIR/run ": "measures a real GPU for minutes; tests/gpu_check/test_packed.py runs it on the simulated one",
    "bazel run -c opt //bench -- ": "measures for an hour; tests/bench/test_compare.py",
    "bazel run -c opt //tests/shadow:run": "takes an hour; tools/test --thorough",
    "frugal-alloc replay gpt60 frcnn60 --device real": "needs a real GPU",
}
# The exit status of those that are to fail.
STATUS = {
    "python examples/stories/detection.py --seed 3": 1,
    "python examples/stories/serving.py --allocator native --budget 0.96": 1,
    "python examples/stories/tenants.py --allocator native": 1,
}
FAILS_WITH = 'jobs=() && fails_with() { local status=0; "${@:2}" || status=$?; [ "$status" = "$1" ]; }'
ON_GPU = {"README.md", "notebooks_and_trainers.md", "tuning.md", "trainer/README.md"}
ALL_ARE_RUN = os.environ.get("FRUGAL_TEST_ALL") == "1"
# A line of a block that is not marked as commands, though it is one.
COMMAND = re.compile(r"(frugal-alloc|tools/\w+|python3?|bazel|c?make|pip|git|scp|[A-Z_]+=\S+) [^=]*\S|DIR/run ")
TRAINING = """
import frugal_alloc, torch
frugal_alloc.enable()
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(8, 256, device="cuda")).sum().backward()
    optimizer.step()
assert frugal_alloc.is_enabled() and torch.cuda.memory_allocated() > 0
"""


def name(document: Path) -> str:
    return str(document.relative_to(ROOT)).removeprefix("docs/").removeprefix("examples/")


def blocks(document: Path) -> list[tutorial.Block]:
    return tutorial.blocks(document.read_text(encoding="utf-8"))


def without_comment(line: str) -> str:
    return re.sub(r"(^|\s+)#\s.*$", "", line).rstrip()


def commands(document: Path) -> list[str]:
    text = "".join(block.text for block in blocks(document) if block.language in ("sh", "bash", "console"))
    joined = re.sub(r"[ \t]*\\\n\s*", " ", text)
    return [command for line in joined.splitlines() if (command := without_comment(line))]


def some(found: list[str]) -> list[str]:
    """Of those that start two processes, and of a story's, the first, and none with more processes: they take minutes.

    tests/docs/test_pictures.py runs the program of each story with each allocator.
    """
    if ALL_ARE_RUN:
        return found
    first: dict[str, str] = {}
    for command in found:
        alike = re.search(r"--nproc-per-node|examples/stories/\w+", command)
        if not re.search(r"--nproc-per-node [^2]\b", command):
            first.setdefault(alike[0] if alike else command, command)
    return list(first.values())


ALL = {name(document): commands(document) for document in DOCUMENTS}
RUN = {
    document: some([command for command in found if not command.startswith(tuple(NOT_RUN))])
    for document, found in ALL.items()
    # These need files that they have their reader write: tests/tutorials runs them with these.
    if document != "cpp.md" and not document.startswith("tutorials/")
    # tests/examples compiles this program, where all tests are run.
    if document != "trainer/README.md" or ALL_ARE_RUN
}


def run(lines: list[str], folder: Path, on_gpu: bool = False) -> None:
    """Runs them in one shell, as those of a tutorial, with this checkout's commands.

    Raises:
        Untrue: one ends otherwise than it is to.
    """
    simulate = [sys.executable, "-m", "frugal_alloc", "simulate", "--memory", "24GiB", "--"]
    blocks = [FAILS_WITH, *map(checked, lines), 'for job in "${jobs[@]}"; do wait "$job"; done']
    page = "".join(f"```sh\n{text}\n```\n" for text in blocks)
    tutorial.run(page, folder, simulate if on_gpu else ())


def checked(command: str) -> str:
    """The command; where it is to fail, one that fails unless it does so with the right status."""
    if command.endswith("&"):
        return f"{command} jobs+=($!)"
    status = next((status for part, status in STATUS.items() if command.endswith(part)), 0)
    return f"fails_with {status} {command}" if status else command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the documents' readers have before them."""
    for program in ("train.py", "first.py", "second.py"):
        (tmp_path / program).write_text(TRAINING)
    (tmp_path / "test_model.py").write_text("def test_train():\n    import train\n")
    reports = {
        "run": samples.healthy(),
        "before": samples.leaking(),
        "after": samples.healthy(),
        **{f"frugal-job-{rank}": samples.rank(rank, 2, samples.healthy()) for rank in range(2)},
    }
    for report, document in reports.items():
        (tmp_path / f"{report}.json").write_text(json.dumps(document))
    shutil.copy(shutil.which("true"), tmp_path / "trainer")
    recorded = lzma.decompress((ROOT / "bench" / "histories" / "mosaic.pickle.xz").read_bytes())
    (tmp_path / "snapshot.pickle").write_bytes(recorded)
    for part in ("CMakeLists.txt", "train.cc", "tumors.csv"):
        shutil.copy(ROOT / "examples" / "trainer" / part, tmp_path)
    shutil.copy(ROOT / "examples" / "fit" / "fsdp.py", tmp_path)
    for part in ("bindings", "examples", "tests", ".venv", "docs"):
        (tmp_path / part).symlink_to(ROOT / part)
    return tmp_path


@pytest.mark.parametrize("document", [document for document, found in RUN.items() if found])
def test_commands_of_a_document_run_as_they_stand(document: str, folder: Path) -> None:
    if any(command.startswith("cmake") for command in RUN[document]) and not shutil.which("cmake"):
        pytest.skip("CMake is not installed")
    run(RUN[document], folder, document in ON_GPU)


def test_there_are_documents_with_commands() -> None:
    assert {"README.md", "install.md", "leaks.md", "trainer/README.md"} <= set(ALL)
    assert sum(map(len, RUN.values())) >= 20


@pytest.mark.parametrize("start", NOT_RUN)
def test_what_is_not_run_is_in_a_document_and_what_runs_it_exists(start: str) -> None:
    assert any(command.startswith(start) for found in ALL.values() for command in found)
    assert all((ROOT / path).exists() for path in re.findall(r"(?:tests|tools)/[\w./]+", NOT_RUN[start]))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_commands_are_in_blocks_that_are_marked_as_such(document: Path) -> None:
    lines = [line for block in blocks(document) if not block.language for line in block.text.splitlines()]
    assert [line for line in lines if COMMAND.match(line)] == []


@pytest.mark.parametrize(
    "line",
    [
        "python no_such_file.py",
        "frugal-alloc report no_such_file.json",
        "false &",
        # These are to fail, with status 1.
        "true python examples/stories/tenants.py --allocator native",
        "bash -c 'exit 3' python examples/stories/tenants.py --allocator native",
    ],
)
def test_a_command_that_ends_otherwise_than_it_is_to_is_noticed(line: str, folder: Path) -> None:
    with pytest.raises(tutorial.Untrue):
        run(["true", line, "true"], folder)
