"""What TensorFlow wrote of a detector tells by how much its memory grows with each step; docs/stories/tensorflow.md."""

from __future__ import annotations

import gzip
from pathlib import Path

from frugal_alloc._command.report_files import read
from frugal_alloc._report import text
from frugal_alloc._report.headline import headline

RECORDED = Path(__file__).parent / "tensorflow"
MIB = 1 << 20
# A step keeps the batch (4.69 MiB), feature maps (5.72) and boxes (0.34); chunks are larger than what is asked for.
KEPT_MIB = 10.75


def test_a_log_that_tells_memory_by_step_makes_sure_of_the_leak() -> None:
    report = read(RECORDED / "detector.log.gz")
    (verdict,) = report["verdicts"]
    assert (verdict["kind"], verdict["confidence"]) == ("leak", 0.99)
    assert KEPT_MIB < verdict["bytes_per_step"] / MIB < 1.2 * KEPT_MIB
    assert verdict["function"].startswith("chunks of 3.52 MiB, 1.95 MiB")
    assert len(report["timeline"]["points"]) == report["epochs"]["ended"] == 34


def test_the_error_is_put_down_to_the_leak_and_its_line_is_named() -> None:
    oom = read(RECORDED / "detector.log.gz")["oom"]
    assert (oom["verdict"], oom["file"], oom["line"]) == ("leak", "/opt/detector/train.py", 72)
    assert "optimizer.minimize(loss, detector.trainable_variables" in oom["code"]
    program = Path(__file__).parents[2] / "examples" / "stories" / "tensorflow_detector.py"
    assert oom["code"] in program.read_text(encoding="utf-8").splitlines()[oom["line"] - 1]


def test_a_healed_training_stays_silent() -> None:
    report = read(RECORDED / "detector_healed.log.gz")
    assert report["verdicts"] == [] and report["oom"] is None
    assert headline(report) == ("No leak found in 100 steps", "good")
    assert ", of " not in text.render(report)


def test_without_memory_by_step_one_dump_does_not_say_that_nothing_leaks(tmp_path: Path) -> None:
    log = gzip.decompress((RECORDED / "detector.log.gz").read_bytes()).decode()
    path = tmp_path / "run.log"
    path.write_text("\n".join(line.partition(" memory: ")[0] for line in log.splitlines()))
    report = read(path)
    assert headline({**report, "oom": None})[1] == "unknown"
    assert any("get_memory_info" in note for note in report["notes"])
