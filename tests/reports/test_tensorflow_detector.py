"""What TensorFlow wrote of a detector tells by how much its memory grows with each step; docs/stories/tensorflow.md."""

from __future__ import annotations

import gzip
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.report_files import ReportError, read
from frugal_alloc._report import page, text
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


def test_a_profile_names_the_ops_whose_tensors_one_result_keeps() -> None:
    report = read(RECORDED / "detector.xplane.pb.xz")
    first, second, third = report["verdicts"]
    assert first["function"] == "Preprocessor/stack, float [4,320,320,3]"
    assert "block_13_expand_BN/FusedBatchNormV3, float [4,20,20,576]" in second["function"]
    assert {one["kind"] for one in report["verdicts"]} == {"leak"}
    assert KEPT_MIB < sum(one["bytes_per_step"] for one in (first, second, third)) / MIB < 1.2 * KEPT_MIB
    assert "perhaps as one result, such as a dict" in first["advice"]
    assert headline(report)[0] in page.render(report)


def test_a_profile_forecasts_the_step_in_which_memory_runs_out() -> None:
    profile, log = read(RECORDED / "detector.xplane.pb.xz"), read(RECORDED / "detector.log.gz")
    last = max(step for _, step, *_ in profile["timeline"]["points"])
    left = profile["verdicts"][0]["out_of_memory_in"]["steps"]
    assert last + left == pytest.approx(log["epochs"]["ended"] + 1, abs=5)


def test_a_profile_of_the_healed_training_stays_silent() -> None:
    report = read(RECORDED / "detector_healed.xplane.pb.xz")
    assert report["verdicts"] == []
    assert headline(report)[0].startswith("No leak found in 10 steps")


# A profile as TensorFlow writes it; bindings/frugal_alloc/_tensorflow/xplane.py tells its form.
def number(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(name: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return number(name << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(name << 3 | 2) + number(len(data)) + data


NAMES = ("MemoryAllocation", "MemoryDeallocation", "train", "train_step", "preprocess")
STATISTICS = (
    *("allocator_name", "bytes_allocated", "bytes_available", "allocation_bytes", "addr", "tf_op"),
    *("step_num", "tf_function_call"),
)


def event(at: int, name: str, duration: int = 0, **values: int | str) -> bytes:
    found = field(1, NAMES.index(name) + 1) + field(2, at) + field(3, duration)
    for one, value in values.items():
        found += field(4, field(1, STATISTICS.index(one) + 1) + field(4 if isinstance(value, int) else 5, value))
    return field(4, found)


def profile(events: list[bytes]) -> bytes:
    tables = b"".join(
        field(table, field(1, place) + field(2, field(1, place) + field(2, one)))
        for table, names in ((4, NAMES), (5, STATISTICS))
        for place, one in enumerate(names, 1)
    )
    return field(1, field(2, "/host:CPU") + field(3, field(3, 1) + b"".join(events)) + tables)


def training(keeps: bool, marked: bool = True, called: bool = False, freed_at_end: bool = False) -> Iterator[bytes]:
    """Twelve steps, each with a tensor of 4 MiB that it frees, and one of 1 MiB that it keeps or frees. They are
    marked, or calls of a function that calls another."""
    clock, held, kept = itertools.count(1000, 1000), 0, []

    def moment(sign: int, size: int, address: int, op: str) -> bytes:
        nonlocal held
        held += sign * size
        left = {"bytes_allocated": held, "bytes_available": 64 * MIB - held}
        what = {"allocator_name": "GPU_0_bfc", "allocation_bytes": size, "addr": address, "tf_op": op, **left}
        return event(next(clock), NAMES[sign < 0], **what)

    for step in range(12):
        if marked:
            yield event(next(clock), "train", step_num=step)
        if called:
            for name, duration in (("preprocess", 10), ("train_step", 5000), ("preprocess", 10)):
                yield event(next(clock), name, duration, tf_function_call="notTraced-nonXla")
        yield moment(1, MIB, 100 + step, "boxes/MatMul")
        yield moment(1, 4 * MIB, 1, "model/Conv2D")
        yield moment(-1, 4 * MIB, 1, "(null)")
        if keeps:
            kept.append(100 + step)
        else:
            yield moment(-1, MIB, 100 + step, "(null)")
    for address in kept if freed_at_end else ():
        yield moment(-1, MIB, address, "(null)")


def written(path: Path, **how: bool) -> dict[str, Any]:
    path.write_bytes(profile(list(training(**how))))
    return read(path)


def test_what_steps_keep_is_told_also_if_it_is_freed_after_the_last(tmp_path: Path) -> None:
    for freed in (False, True):
        (verdict,) = written(tmp_path / "run.xplane.pb", keeps=True, freed_at_end=freed)["verdicts"]
        assert (verdict["function"], verdict["bytes_per_step"]) == ("boxes/MatMul", MIB)
    assert written(tmp_path / "run.xplane.pb", keeps=False)["verdicts"] == []


def test_memory_lasts_until_a_step_needs_more_than_there_is(tmp_path: Path) -> None:
    (verdict,) = written(tmp_path / "run.xplane.pb", keeps=True)["verdicts"]
    # After 12 steps 12 MiB are kept, and a step needs 4 more for a moment.
    assert verdict["out_of_memory_in"]["steps"] == 64 - 12 - 4


def test_calls_of_the_longest_function_are_steps_where_none_is_marked(tmp_path: Path) -> None:
    report = written(tmp_path / "run.xplane.pb", keeps=True, marked=False, called=True)
    (verdict,) = report["verdicts"]
    assert (verdict["function"], verdict["bytes_per_step"]) == ("boxes/MatMul", MIB)
    assert "No steps are marked in the profile: each call of train_step counts as one." in report["notes"]


def test_profile_without_marked_steps_says_how_to_mark_them(tmp_path: Path) -> None:
    report = written(tmp_path / "run.xplane.pb", keeps=True, marked=False)
    assert report["verdicts"] == []
    assert any("tf.profiler.experimental.Trace" in note for note in report["notes"])


def test_damaged_profiles_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    whole = profile(list(training(keeps=True)))
    source = random.Random(8)
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(source.randrange(1, 30)):
            data[source.randrange(1, len(data))] = source.randrange(256)
        path = tmp_path / "damaged"
        path.write_bytes(data[: source.randrange(2, len(data))])
        try:
            page.render(read(path))
        except ReportError as refused:
            assert "\n" not in str(refused), refused
