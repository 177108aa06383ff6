"""Each story ends with the verdict that is behind it, and its healed twin fits on the same GPU.

All run with the order of their work checked: no byte is handed on before its last use is ordered.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
STORIES = ROOT / "examples" / "stories"
ORDER = re.compile(r"the order of (?P<accesses>\d+) accesses was checked, (?P<violations>\d+) violations?")
# Each makes ten times as many.
FEWEST_ACCESSES = 500


class Ended(NamedTuple):
    """A program that has ended. `report` is what it left in its folder; None: nothing."""

    status: int
    out: str
    err: str
    report: dict[str, Any] | None

    @property
    def error(self) -> str:
        """What the report has of running out of memory, its lines joined."""
        return re.sub(r"\s+", " ", self.report["oom"]["message"])

    def line(self, row: dict[str, Any]) -> str:
        """The code of the line that a verdict or an error names."""
        return (STORIES / Path(row["file"]).name).read_text().splitlines()[row["line"] - 1].strip()


@pytest.fixture
def tell(run_story: Any, tmp_path: Path) -> Any:
    """Runs a story with values, its late streams late."""

    def run(story: str, memory_mib: int, *arguments: str, **options: str) -> Ended:
        done = run_story(story, memory_mib, *arguments, FRUGAL_SIM_LATE="1", **options)
        reports = list(tmp_path.glob("frugal-*.json"))
        report = json.loads(reports[0].read_text()) if reports else None
        order = ORDER.search(done.stderr)
        assert order is not None, done.stderr
        print(order[0])
        assert int(order["accesses"]) > FEWEST_ACCESSES and int(order["violations"]) == 0, done.stderr
        return Ended(done.returncode, done.stdout, done.stderr, report)

    return run


def kinds(report: dict[str, Any]) -> list[str]:
    return [verdict["kind"] for verdict in report["verdicts"]]


def test_detection_that_only_exits_with_status_1_leaves_a_report_that_says_too_big(tell: Any) -> None:
    ended = tell("caught_error.py", 1024)
    assert (ended.status, ended.out) == (1, "")
    assert "out of memory" not in ended.err
    assert ended.report["oom"]["verdict"] == "too_big"
    # The helper tensor of 256 MiB that is used after the model only, and the copies of the inputs.
    assert "256.00 MiB stories/caught_error.py" in ended.error
    assert re.search(r"`helper` \(256\.00 MiB\) is not needed while line \d+ .* runs: make it afterwards", ended.error)
    assert ended.line(ended.report["oom"]) == "losses = model(inputs, boxes)"


def test_research_code_that_keeps_its_samples_is_told_of_the_list(tell: Any) -> None:
    ended = tell("research.py", 768)
    assert ended.status == 1
    assert ended.report["oom"]["verdict"] == "leak"
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate" in ended.err
    assert "Leak: what" in ended.err
    assert "`history.samples` keeps" in ended.error or "history.samples" in json.dumps(ended.report["verdicts"])
    worst = ended.report["verdicts"][0]
    assert worst["kind"] == "leak" and ended.line(worst) == "return self.layers(noise)"
    # 512 samples' two hidden layers, and themselves, in each of 4 steps.
    assert worst["bytes_per_epoch"] == pytest.approx(4 * 512 * (2 * 1024 + 256) * 4, rel=0.1)


def test_launch_failure_is_recognised_and_the_leak_behind_it_named(tell: Any) -> None:
    ended = tell("launch_failure.py", 768)
    assert ended.status == 1
    below = ended.err.partition("RuntimeError: CUDA error: unspecified launch failure (roi_kernel.cu:112)")[2]
    told = re.sub(r"\s+", " ", below)
    assert told.startswith(" frugal_alloc: this looks like memory running out under another name"), ended.err
    assert re.search(r"What fills it: stories/launch_failure\.py:\d+ leaks 9\.00 MiB with each epoch", told), told
    assert "'seen'" in told
    leaks = [ended.line(verdict) for verdict in ended.report["verdicts"] if verdict["kind"] == "leak"]
    assert "weights = torch.softmax(self.query(values) @ self.key(values).transpose(1, 2), dim=-1)" in leaks


def test_mask_rcnn_is_too_big_at_its_largest_images(tell: Any) -> None:
    ended = tell("mask_rcnn.py", 868)
    assert ended.status == 1
    assert ended.report["oom"]["verdict"] == "too_big"
    assert "leak" not in kinds(ended.report)
    assert ended.line(ended.report["oom"]).startswith("loss = sum(model(inputs, truth).values())")
    # It would fit into what lies beside small tensors, but that is there wherever memory is full.
    shared = re.search(r"; (\S+ MiB) are free, but in pieces of memory that live\s+tensors share\.", ended.error)
    assert shared and f"Fragmentation {shared[1]} in pages that live tensors share" in ended.error, ended.error
    assert "a batch of 3 fits" in re.sub(r"\s+", " ", ended.error), ended.error


@pytest.mark.parametrize(
    ("story", "memory_mib"),
    [("caught_error.py", 1024), ("research.py", 768), ("launch_failure.py", 768), ("mask_rcnn.py", 864)],
)
def test_healed_story_fits_on_the_same_gpu_and_leaks_nothing(tell: Any, story: str, memory_mib: int) -> None:
    ended = tell(story, memory_mib, "--healed", FRUGAL_ALLOC_CONF="report_dir:.")
    assert ended.status == 0, ended.err
    assert ended.report["oom"] is None
    assert not {"leak", "suspect", "growing", "cycle"} & set(kinds(ended.report)), ended.report["verdicts"]


def test_remedies_save_what_the_documentation_says(tell: Any) -> None:
    ended = tell("remedies.py", 16 << 10, values="none")
    assert ended.status == 0, ended.err
    measured = [line for line in ended.out.splitlines() if line.startswith("|")]
    assert len(measured) > 15
    documented = (ROOT / "docs" / "out_of_memory.md").read_text().splitlines()
    for line in measured:
        assert line in documented, f"docs/out_of_memory.md does not have\n{line}"
