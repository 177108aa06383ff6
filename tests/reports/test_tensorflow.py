"""What TensorFlow itself has written gets the same kinds of verdicts; recorded by the programs of tensorflow."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.report_files import read
from frugal_alloc._report import page, text
from frugal_alloc._report.headline import headline

RECORDED = Path(__file__).parent / "tensorflow"
MIB = 1 << 20
# A step keeps the batch (4.69 MiB), feature maps (5.72) and boxes (0.34); chunks are larger than what is asked for.
KEPT_MIB = 10.75


def recorded(name: str) -> dict[str, Any]:
    return read(RECORDED / name)


def log(path: Path, content: str) -> dict[str, Any]:
    path.write_text(content)
    return read(path)


def test_a_tensor_of_each_step_is_a_leak_and_its_line_is_in_the_traceback() -> None:
    report = recorded("growing.log.gz")
    assert report["oom"]["verdict"] == "leak"
    assert (report["oom"]["file"], report["oom"]["line"]) == ("/opt/detector/train.py", 29)
    assert "tape.gradient(loss, weights)" in report["oom"]["code"]
    (verdict,) = report["verdicts"]
    assert (verdict["kind"], verdict["blocks"]) == ("suspect", 127)
    # A step keeps 2 MiB of features: 8 images of 64 x 64 with 16 channels of 4 bytes.
    assert verdict["bytes_per_step"] == pytest.approx(2 * MIB, rel=0.05)


def test_several_dumps_make_sure_of_a_leak() -> None:
    (verdict,) = recorded("retried.log.gz")["verdicts"]
    assert (verdict["kind"], verdict["bytes_per_step"]) == ("leak", 2 * MIB)
    assert verdict["confidence"] == 0.99


def test_a_tensor_larger_than_the_memory_is_too_big() -> None:
    report = recorded("too_big.log.gz")
    assert report["verdicts"] == []
    assert (report["oom"]["verdict"], report["oom"]["requested_bytes"]) == ("too_big", 275 * MIB)
    assert "larger than all that TensorFlow may take" in report["oom"]["advice"][0]["text"]


def test_free_memory_in_pieces_is_fragmentation() -> None:
    oom = recorded("fragmentation.log.gz")["oom"]
    assert (oom["verdict"], oom["requested_bytes"], oom["largest_free_bytes"]) == ("fragmentation", 80 * MIB, 12 * MIB)
    assert oom["unusable_bytes"] > 80 * MIB


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.gz")), ids=lambda file: file.name)
def test_every_artefact_makes_a_page(file: Path) -> None:
    assert headline(read(file))[0].replace("&", "&amp;") in page.render(read(file))


# Of the detector of docs/cases.md: by how much its memory grows with each step.


def test_a_log_that_tells_memory_by_step_makes_sure_of_the_leak() -> None:
    report = recorded("detector.log.gz")
    (verdict,) = report["verdicts"]
    assert (verdict["kind"], verdict["confidence"]) == ("leak", 0.99)
    assert KEPT_MIB < verdict["bytes_per_step"] / MIB < 1.2 * KEPT_MIB
    assert verdict["function"].startswith("chunks of 3.52 MiB, 1.95 MiB")
    assert len(report["timeline"]["points"]) == report["epochs"]["ended"] == 34


def test_the_error_is_put_down_to_the_leak_and_its_line_is_named() -> None:
    oom = recorded("detector.log.gz")["oom"]
    assert (oom["verdict"], oom["file"], oom["line"]) == ("leak", "/opt/detector/train.py", 72)
    assert "optimizer.minimize(loss, detector.trainable_variables" in oom["code"]
    program = Path(__file__).parents[2] / "examples" / "stories" / "tensorflow_detector.py"
    assert oom["code"] in program.read_text(encoding="utf-8").splitlines()[oom["line"] - 1]


def test_a_healed_training_stays_silent() -> None:
    report = recorded("detector_healed.log.gz")
    assert report["verdicts"] == [] and report["oom"] is None
    assert headline(report) == ("No leak found in 100 steps", "good")
    assert ", of " not in text.render(report)


def test_without_memory_by_step_one_dump_does_not_say_that_nothing_leaks(tmp_path: Path) -> None:
    lines = gzip.decompress((RECORDED / "detector.log.gz").read_bytes()).decode().splitlines()
    report = log(tmp_path / "run.log", "\n".join(line.partition(" memory: ")[0] for line in lines))
    assert headline({**report, "oom": None})[1] == "unknown"
    assert any("get_memory_info" in note for note in report["notes"])


# As TensorFlow 1 wrote it.
OLD = """2018-03-13 21:59:44.1: W tensorflow/core/common_runtime/bfc_allocator.cc:273] Allocator (GPU_1_bfc) ran out \
of memory trying to allocate 4.42GiB.  Current allocation summary follows.
2018-03-13 21:59:44.2: I tensorflow/core/common_runtime/bfc_allocator.cc:628] Bin (256): \tTotal Chunks: 1, Chunks in \
use: 1. 256B allocated for chunks. 256B in use in bin. 4B client-requested in use in bin.
2018-03-13 21:59:44.8: I tensorflow/core/common_runtime/bfc_allocator.cc:661] Chunk at 0x1020fd06700 of size 536832
2018-03-13 21:59:44.9: I tensorflow/core/common_runtime/bfc_allocator.cc:661] Chunk at 0x1020fd89800 of size 536832
2018-03-13 21:59:44.9: I tensorflow/core/common_runtime/bfc_allocator.cc:670] Free at 0x1020fe0c900 of size 1048576
2018-03-13 21:59:45.0: I tensorflow/core/common_runtime/bfc_allocator.cc:680] Stats:
Limit:                  3453288448
InUse:                     1073664
MaxInUse:               2000000000
"""


def test_logs_of_tensorflow_1_are_understood(tmp_path: Path) -> None:
    report = log(tmp_path / "run.log", OLD)
    assert report["gpus"][0]["gpu"] == 1
    assert report["gpus"][0]["limit_bytes"] == 3453288448
    assert report["gpus"][0]["allocated_bytes"] == 2 * 536832
    assert report["oom"]["verdict"] == "too_big"
    assert report["oom"]["requested_bytes"] == int(4.42 * (1 << 30))


def test_weights_that_are_as_many_as_steps_but_small_are_no_leak(tmp_path: Path) -> None:
    steps = "".join(f"step {number}\n" for number in range(20))
    weights = "".join(f"x] InUse at 7f{n:04x} of size 1024 next 1\n" for n in range(20))
    large = "x] InUse at 7fffff of size 3000000000 next 1\n"
    head, bin_line, *_ = OLD.splitlines(keepends=True)
    report = log(tmp_path / "run.log", steps + head + bin_line + weights + large)
    assert (report["oom"]["verdict"], report["verdicts"]) == ("too_big", [])
